use std::time::Duration;

use tidegate_testbed::{Reply, Server, Wire};

#[test]
fn a_killed_server_restarts_without_keys() {
    let server = Server::start();
    let mut wire = server.wire();
    wire.command(["SET", "a", "b"]).expect_ok();
    assert_eq!(wire.command(["GET", "a"]).bulk(), Some(b"b".as_slice()));
    assert_eq!(wire.command(["INCR", "n"]).integer(), 1);
    assert_eq!(wire.command(["MGET", "a", "none"]).array()[1], Reply::Bulk(None));
    assert!(wire.command(["INCR", "a"]).error().starts_with("ERR value is not an integer"));

    server.kill();
    assert!(!server.is_up());
    assert!(wire.try_command(["PING"]).is_err());
    assert!(server.try_wire().is_err());

    server.restart();
    assert_eq!(Wire::try_connect(server.addr()).unwrap().command(["DBSIZE"]).integer(), 0);
}

#[test]
fn a_server_that_persists_keeps_its_keys() {
    let server = Server::builder().persist().start();
    server.wire().command(["SET", "a", "b"]).expect_ok();
    server.kill();
    server.restart();
    assert_eq!(server.wire().command(["GET", "a"]).as_str_lossy(), "b");
    server.stop();
    server.restart();
    assert_eq!(server.wire().command(["GET", "a"]).as_str_lossy(), "b");
}

#[test]
fn a_paused_server_replies_after_it_resumes() {
    let server = Server::start();
    let mut wire = server.wire();
    server.pause();
    assert!(!server.is_up());
    wire.set_timeout(Some(Duration::from_millis(50)));
    assert!(wire.try_command(["PING"]).is_err());
    server.resume();
    wire.set_timeout(None);
    assert_eq!(wire.read().as_str_lossy(), "PONG");
}

#[test]
fn a_paused_server_can_be_dropped_and_stopped() {
    let server = Server::start();
    server.pause();
    server.stop();
    server.restart();
    server.pause();
    drop(server);
}

#[test]
fn a_server_requires_passwords_and_applies_acl_rules() {
    let server = Server::builder()
        .password("secret")
        .acl_user("app", "pass", "~app:* +@all -@dangerous")
        .arg("--maxmemory", "10mb")
        .start();
    assert_eq!(server.url(), format!("redis://:secret@127.0.0.1:{}", server.port()));
    assert_eq!(server.url_as("app", "pass"), format!("redis://app:pass@127.0.0.1:{}", server.port()));
    assert_eq!(server.wire().command(["CONFIG", "GET", "maxmemory"]).array()[1].as_str_lossy(), "10485760");

    let mut wire = Wire::try_connect(server.addr()).unwrap();
    assert!(wire.command(["PING"]).error().starts_with("NOAUTH"));
    wire.command(["AUTH", "app", "pass"]).expect_ok();
    wire.command(["SET", "app:a", "b"]).expect_ok();
    assert!(wire.command(["SET", "a", "b"]).error().starts_with("NOPERM"));
}

#[test]
fn a_monitor_receives_the_commands_of_other_connections() {
    let server = Server::start();
    let mut monitor = server.wire();
    monitor.command(["MONITOR"]).expect_ok();
    server.wire().command([b"SET".as_slice(), b"a", &[0, 255]]).expect_ok();
    assert!(monitor.read().as_str_lossy().ends_with(r#""SET" "a" "\x00\xff""#));
}

#[test]
fn a_server_starts_after_another_process_releases_its_port() {
    let port = Server::start().port();
    let occupant = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let server = std::thread::spawn(move || Server::builder().port(port).start());
    // Meanwhile the server has failed to start at least once.
    for _ in 0..2 {
        Server::start();
    }
    drop(occupant);
    assert_eq!(server.join().unwrap().port(), port);
}

#[test]
#[should_panic(expected = "Bad directive")]
fn a_server_that_cannot_start_panics_with_its_log() {
    Server::builder().arg("nonsense", "yes").start();
}
