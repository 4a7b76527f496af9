//! Connections are closed when they are idle, incomplete or unread, and when the service stops.

use super::{
    client::{Client, Reply, command},
    service, service_with,
};

#[test]
fn an_idle_connection_is_closed() {
    let service = service_with("idle_timeout = \"40ms\"");
    let mut client = Client::connect(service.resp);
    assert_eq!(client.call("PING"), Reply::Simple("PONG".to_owned()));
    client.expect_end();
}

#[test]
fn a_connection_with_an_incomplete_command_is_closed() {
    let service = service_with("header_timeout = \"40ms\"");
    for half in ["*2\r\n$4\r\nECHO\r\n$5\r\nhel", "*", "PIN"] {
        let mut client = Client::connect(service.resp);
        client.send(b"PING\r\n");
        assert_eq!(client.read(), Reply::Simple("PONG".to_owned()));
        client.send(half.as_bytes());
        client.expect_end();
    }
    assert_eq!(Client::connect(service.resp).call("PING"), Reply::Simple("PONG".to_owned()));
}

#[test]
fn a_client_that_reads_no_replies_is_disconnected() {
    let service = service_with("write_timeout = \"40ms\"");
    let mut client = Client::connect(service.resp);
    let big = command([b"ECHO".as_slice(), &vec![b'x'; 60_000]]);
    // The socket buffers fill, then the service stops reading, then it closes the connection.
    while client.try_send(&big).is_ok() {}
    assert_eq!(Client::connect(service.resp).call("PING"), Reply::Simple("PONG".to_owned()));
}

#[test]
fn received_commands_are_answered_before_the_service_stops() {
    for _ in 0..5 {
        let service = service();
        let mut idle = Client::connect(service.resp);
        let mut client = Client::connect(service.resp);
        assert_eq!(idle.call("PING"), Reply::Simple("PONG".to_owned()));
        assert_eq!(client.call("PING"), Reply::Simple("PONG".to_owned()));
        // Not more than a socket buffer holds.
        let mut bytes: Vec<u8> = (0..500).flat_map(|_| command(["TG.CHECK", "wide", "k"])).collect();
        bytes.extend_from_slice(b"*2\r\n$4\r\nECHO\r\n");
        client.send(&bytes);
        drop(service);
        for number in 1..=500 {
            let reply = client.try_read().expect("in time").unwrap_or_else(|| panic!("closed at {number}"));
            assert_eq!(reply.numbers()[2], 1_000_000 - number);
        }
        client.expect_end();
        idle.expect_end();
    }
}

#[test]
fn a_half_closed_connection_is_still_answered() {
    let service = service();
    let mut client = Client::connect(service.resp);
    client.send(&command(["TG.CHECK", "api", "k"]));
    client.finish();
    assert_eq!(client.read().numbers()[0], 1);
    client.expect_end();
}
