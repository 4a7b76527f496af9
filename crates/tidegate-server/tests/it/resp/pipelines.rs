//! Many commands in one write are answered in order with every store.

use tidegate_testbed::Server;

use super::{
    POLICIES,
    client::{Client, Reply, command},
    service,
};
use crate::running::Running;

fn many(count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        match number % 4 {
            0 => bytes.extend(command(["PING", &number.to_string()])),
            1 => bytes.extend(command(["TG.CHECK", "wide", "one"])),
            2 => bytes.extend(command(["TG.CHECK", "api", "k", "COST", "no"])),
            _ => bytes.extend(format!("ECHO \"{number}\"\r\n").into_bytes()),
        }
    }
    bytes
}

#[track_caller]
fn answered_in_order(client: &mut Client, count: usize) {
    for number in 0..count {
        let reply = client.read();
        match number % 4 {
            1 => {
                let left = 1_000_000 - i64::try_from(number / 4 + 1).expect("small");
                assert_eq!(reply.numbers()[..3], [1, 1_000_000, left], "{number}");
            }
            2 => assert!(reply.error().starts_with("ERR COST `no`")),
            _ => assert_eq!(reply, Reply::bulk(&number.to_string())),
        }
    }
}

#[test]
fn ten_thousand_commands_in_one_write_are_answered_in_order() {
    let service = service();
    let mut client = Client::connect(service.resp);
    client.send(&many(10_000));
    answered_in_order(&mut client, 10_000);
    assert_eq!(client.call("PING"), Reply::Simple("PONG".to_owned()));
}

#[test]
fn ten_thousand_commands_through_redis_are_answered_in_order() {
    let redis = Server::start();
    let service = Running::start(&format!("[store]\nurl = \"{}\"\ntimeout = \"10s\"\n{POLICIES}", redis.url()));
    let mut client = Client::connect(service.resp);
    client.send(&many(10_000));
    answered_in_order(&mut client, 10_000);
    // A reset waits for the commands before it, and the commands after it wait for the reset.
    client.send(b"TG.CHECK api k\r\nTG.CHECK api k\r\nTG.RESET api k\r\nTG.CHECK api k\r\nTG.INSPECT api k\r\nTG.CHECKALL api k 1 api j 1\r\nCL.THROTTLE t 0 1 60\r\nCL.THROTTLE t 0 1 60\r\n");
    assert_eq!(client.read().numbers()[2], 2);
    assert_eq!(client.read().numbers()[2], 1);
    assert_eq!(client.read(), Reply::Int(1));
    assert_eq!(client.read().numbers()[2], 2);
    assert!(matches!(client.read().field("limits"), Reply::List(limits) if limits.len() == 1));
    assert_eq!(client.read().numbers()[..3], [1, 3, 1]);
    assert_eq!(client.read().numbers()[..4], [0, 1, 0, -1]);
    assert_eq!(client.read().numbers()[..4], [1, 1, 0, 60]);
    // The version changes between two decisions.
    client.send(b"TG.PEEK api x FULL\r\nHELLO 3\r\nTG.PEEK api x FULL\r\n");
    assert!(matches!(client.read(), Reply::List(_)));
    client.resp3 = true;
    assert!(matches!(client.read(), Reply::Map(_)));
    assert!(matches!(client.read(), Reply::Map(_)));
}

#[test]
fn an_unavailable_store_is_handled_as_the_call_or_the_policy_says() {
    // No server listens on this port.
    let config = format!("[store]\nurl = \"redis://127.0.0.1:1\"\n{POLICIES}");
    let service = Running::start(&config);
    let mut client = Client::connect(service.resp);
    assert_eq!(client.call("TG.CHECK api k ONFAIL closed").numbers()[..4], [0, 3, 0, -3]);
    assert_eq!(client.call("TG.CHECK api k ONFAIL CLOSED FULL").field("reason"), Reply::bulk("store_unavailable"));
    let open = client.call("TG.CHECK api k FULL");
    assert_eq!((open.field("allowed"), open.field("degraded")), (Reply::Int(1), Reply::Int(1)));
    assert_eq!(client.call("TG.CHECK api k ONFAIL local").numbers()[..3], [1, 3, 2]);
    assert!(client.call("TG.RESET api k").error().starts_with("ERR redis is not reachable"));
    assert_eq!(client.call("CL.THROTTLE k 1 1 60").numbers()[0], 0);
}

#[test]
fn replies_larger_than_the_buffers_arrive_complete_and_in_order() {
    let service = service();
    let mut client = Client::connect(service.resp);
    for _ in 0..1000 {
        client.send(&command(["TG.CHARGE", "wide", "k", "1"]));
        client.read();
    }
    // Each of these replies has about a hundred kilobytes.
    let mut bytes = Vec::new();
    for number in 0..40 {
        bytes.extend(command(["TG.INSPECT", "wide", "k"]));
        bytes.extend(command(["ECHO", &number.to_string()]));
    }
    client.send(&bytes);
    for number in 0..40 {
        assert!(matches!(client.read(), Reply::List(_)));
        assert_eq!(client.read(), Reply::bulk(&number.to_string()));
    }
}
