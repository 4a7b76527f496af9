use std::time::Duration;

use tidegate_testbed::{Proxy, Server, Wire, wait_for};

#[test]
fn a_proxy_forwards_bytes_with_and_without_a_delay() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut wire = Wire::try_connect(proxy.url().trim_start_matches("redis://")).unwrap();
    wire.command(["SET", "a", "b"]).expect_ok();
    proxy.set_delay(Duration::from_millis(30));
    // The second command is sent before the first reply arrives. Both replies arrive in order.
    wire.send(["GET", "a"]);
    wire.send(["GET", "nothing"]);
    assert_eq!(wire.read().bulk(), Some(b"b".as_slice()));
    assert_eq!(wire.read().bulk(), None);
    proxy.set_delay(Duration::ZERO);
    assert_eq!(wire.command(["GET", "a"]).bulk(), Some(b"b".as_slice()));
}

#[test]
fn a_proxy_repeats_commands_with_the_same_bytes() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    proxy.repeat_every(2);
    let mut wire = Wire::try_connect(proxy.url().trim_start_matches("redis://")).unwrap();
    for number in 1..=6 {
        // The replies are those of the commands and not of the copies.
        assert!(!wire.command(["RPUSH", "list", &number.to_string()]).is_error());
    }
    let mut direct = server.wire();
    let list = wait_for("three copies", Duration::from_secs(10), || {
        let list = direct.command(["LRANGE", "list", "0", "-1"]);
        if list.array().len() == 9 { Ok(list) } else { Err(format!("{list:?}")) }
    });
    let mut numbers: Vec<_> = list.array().iter().map(|number| number.as_str_lossy().into_owned()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["1", "2", "2", "3", "4", "4", "5", "6", "6"]);
    assert_eq!(proxy.faults().repeated, 3);
}

#[test]
fn a_proxy_loses_requests_and_replies_with_their_connection() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let connect = || Wire::try_connect(proxy.url().trim_start_matches("redis://")).unwrap();
    proxy.lose_every(3);
    let mut wire = connect();
    for _ in 0..2 {
        assert!(wire.try_command(["INCR", "carried out"]).is_ok());
    }
    assert!(wire.try_command(["INCR", "carried out"]).is_err(), "the request is lost");
    // The fourth request arrives, and the third reply is lost.
    assert!(connect().try_command(["INCR", "carried out"]).is_err());
    let faults = proxy.faults();
    assert_eq!((faults.lost_requests, faults.lost_replies), (1, 1));
    assert_eq!(server.wire().command(["GET", "carried out"]).bulk(), Some(b"3".as_slice()));
}
