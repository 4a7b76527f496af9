//! MULTI … EXEC: commands wait for EXEC, and nothing is charged unless EXEC runs them.

use tidegate_testbed::Server;

use super::{
    POLICIES,
    client::{Client, Reply, command},
    service, service_with,
};
use crate::running::Running;

fn ok() -> Reply {
    simple("OK")
}

fn queued() -> Reply {
    simple("QUEUED")
}

fn simple(text: &str) -> Reply {
    Reply::Simple(text.to_owned())
}

#[track_caller]
fn list(reply: Reply) -> Vec<Reply> {
    let Reply::List(items) = reply else { panic!("not a list: {reply:?}") };
    items
}

/// Returns the units in use of the policy `wide`, which has a limit of a million.
#[track_caller]
fn used(client: &mut Client) -> i64 {
    1_000_000 - client.call("TG.PEEK wide k").numbers()[2]
}

/// Sends commands in one write, as client libraries send a transaction.
fn send_all(client: &mut Client, commands: &[&str]) {
    let bytes: Vec<u8> = commands.iter().flat_map(|words| command(words.split(' '))).collect();
    client.send(&bytes);
}

#[test]
fn exec_runs_the_queued_commands_and_replies_with_one_array() {
    let redis = Server::start();
    let through_redis = Running::start(&format!("[store]\nurl = \"{}\"\ntimeout = \"10s\"\n{POLICIES}", redis.url()));
    for service in [service(), through_redis] {
        for mut client in [Client::connect(service.resp), Client::connect3(service.resp)] {
            let before = used(&mut client);
            assert_eq!(client.call("MULTI"), ok());
            for words in ["TG.CHECK wide k", "ECHO two", "TG.CHECK wide k COST 5", "TG.CHECK unknown k", "UNWATCH"] {
                assert_eq!(client.call(words), queued(), "{words}");
            }
            assert_eq!(used(&mut Client::connect(service.resp)), before, "nothing is charged before EXEC");
            let replies = list(client.call("EXEC"));
            assert_eq!(replies.len(), 5);
            assert_eq!(replies[0].numbers()[2], 999_999 - before);
            assert_eq!(replies[1], Reply::bulk("two"));
            assert_eq!(replies[2].numbers()[2], 999_994 - before);
            assert!(
                replies[3].error().contains("unknown"),
                "an error of one command does not affect the others: {replies:?}"
            );
            assert_eq!(replies[4], ok());
            assert_eq!(used(&mut client), before + 6);
            assert_eq!(client.call("MULTI"), ok());
            assert_eq!(client.call("EXEC"), Reply::List(Vec::new()), "the next transaction is empty");
        }
    }
}

#[test]
fn a_transaction_in_one_write_is_answered_in_order() {
    let service = service();
    let mut client = Client::connect(service.resp);
    send_all(
        &mut client,
        &["PING", "MULTI", "TG.CHECK wide k", "PING", "EXEC", "ECHO after", "MULTI", "PING", "DISCARD"],
    );
    for expected in [simple("PONG"), ok(), queued(), queued()] {
        assert_eq!(client.read(), expected);
    }
    assert_eq!(list(client.read())[1], simple("PONG"));
    for expected in [Reply::bulk("after"), ok(), queued(), ok()] {
        assert_eq!(client.read(), expected);
    }
    assert_eq!(used(&mut client), 1);
}

#[test]
fn an_error_while_queueing_aborts_and_nothing_is_charged() {
    let service = service();
    for wrong in ["NOSUCH", "TG.CHECK wide", "TG.CHECK wide k COST none", "TG.CHECK wide k NOSUCH", "CLIENT REPLY OFF"]
    {
        let mut client = Client::connect(service.resp);
        assert_eq!(client.call("MULTI"), ok());
        assert_eq!(client.call("TG.CHECK wide k"), queued());
        assert!(client.call(wrong).error().starts_with("ERR "), "{wrong}");
        assert_eq!(client.call("TG.CHECK wide k"), queued());
        assert_eq!(client.call("EXEC").error(), "EXECABORT Transaction discarded because of previous errors.");
        assert_eq!(used(&mut client), 0, "{wrong}");
        assert_eq!(client.call("EXEC").error(), "ERR EXEC without MULTI", "the transaction has ended");
    }
}

#[test]
fn discard_reset_quit_and_disconnecting_drop_the_queue() {
    let service = service();
    let begun = || {
        let mut client = Client::connect(service.resp);
        assert_eq!(client.call("MULTI"), ok());
        assert_eq!(client.call("TG.CHECK wide k"), queued());
        client
    };
    let mut discarded = begun();
    assert_eq!(discarded.call("DISCARD"), ok());
    assert_eq!(discarded.call("DISCARD").error(), "ERR DISCARD without MULTI");
    let mut reset = begun();
    assert_eq!(reset.call("RESET"), simple("RESET"));
    assert_eq!(reset.call("EXEC").error(), "ERR EXEC without MULTI");
    let mut left = begun();
    assert_eq!(left.call("QUIT"), ok());
    left.expect_end();
    drop(begun());
    assert_eq!(used(&mut discarded), 0);
}

#[test]
fn nested_multi_and_watch_reply_like_redis() {
    let service = service();
    let mut client = Client::connect(service.resp);
    assert_eq!(client.call("WATCH a b"), ok());
    assert_eq!(client.call("UNWATCH"), ok());
    assert_eq!(client.call("MULTI"), ok());
    assert_eq!(client.call("MULTI").error(), "ERR MULTI calls can not be nested");
    assert_eq!(client.call("WATCH a").error(), "ERR WATCH inside MULTI is not allowed");
    assert_eq!(client.call("TG.CHECK wide k"), queued());
    assert_eq!(list(client.call("EXEC")).len(), 1, "neither aborts the transaction");
    assert_eq!(used(&mut client), 1);
}

#[test]
fn commands_are_authorized_when_queued_and_auth_applies_when_run() {
    let service = service_with("token = \"usage-token\"\nadmin_token = \"admin-token\"");
    let mut client = Client::connect(service.resp);
    assert!(client.call("MULTI").error().starts_with("NOAUTH "));
    assert!(client.call("EXEC").error().starts_with("NOAUTH "));
    assert_eq!(client.call("AUTH usage-token"), ok());
    assert_eq!(client.call("MULTI"), ok());
    assert_eq!(client.call("AUTH admin-token"), queued());
    assert!(client.call("TG.RESET wide k").error().starts_with("NOPERM "), "AUTH has not run yet");
    assert!(client.call("EXEC").error().starts_with("EXECABORT "));
    assert_eq!(client.call("MULTI"), ok());
    assert_eq!(client.call("AUTH admin-token"), queued());
    assert_eq!(list(client.call("EXEC")), [ok()]);
    assert_eq!(client.call("TG.RESET wide k"), Reply::Int(0));
    assert_eq!(client.call("MULTI"), ok());
    assert_eq!(client.call("HELLO 3"), queued());
    assert_eq!(client.call("TG.PEEK wide k FULL"), queued());
    client.resp3 = true;
    let replies = list(client.call("EXEC"));
    assert!(
        replies.iter().all(|reply| matches!(reply, Reply::Map(_))),
        "the version changes when the transaction runs: {replies:?}"
    );
}

#[test]
fn a_queue_beyond_its_maximum_is_aborted_and_charges_nothing() {
    let service = service();
    let mut client = Client::connect(service.resp);
    let long = "x".repeat(60_000);
    let short = ["TG.CHECK", "wide", "k"];
    for (commands, one) in [(10_001, command(short)), (20, command(["ECHO", &long]))] {
        assert_eq!(client.call("MULTI"), ok());
        client.send(&command(short));
        assert_eq!(client.read(), queued());
        let mut refused = 0;
        for _ in 0..commands / 20 {
            client.send(&one.repeat(20));
            for _ in 0..20 {
                let reply = client.read();
                if reply != queued() {
                    assert!(reply.error().starts_with("ERR a transaction may have at most "), "{reply:?}");
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 1, "commands after the first error are not stored");
        assert!(client.call("EXEC").error().starts_with("EXECABORT "));
    }
    assert_eq!(used(&mut client), 0);
}

#[test]
fn replies_larger_than_one_write_arrive_complete() {
    let service = service();
    let mut client = Client::connect(service.resp);
    let echo = command(["ECHO", &"x".repeat(20_000)]);
    assert_eq!(client.call("MULTI"), ok());
    client.send(&echo.repeat(40));
    for _ in 0..40 {
        assert_eq!(client.read(), queued());
    }
    let replies = list(client.call("EXEC"));
    assert!(replies.len() == 40 && replies.iter().all(|reply| *reply == Reply::bulk(&"x".repeat(20_000))));
    assert_eq!(client.call("PING"), simple("PONG"));
}

#[test]
fn a_transaction_without_replies_still_runs() {
    let service = service();
    let mut client = Client::connect(service.resp);
    send_all(&mut client, &["CLIENT REPLY OFF", "MULTI", "TG.CHECK wide k", "EXEC", "CLIENT REPLY ON"]);
    assert_eq!(client.read(), ok());
    send_all(&mut client, &["MULTI", "TG.CHECK wide k", "PING"]);
    assert_eq!([client.read(), client.read(), client.read()], [ok(), queued(), queued()]);
    assert_eq!(client.call("DISCARD"), ok());
    assert_eq!(used(&mut client), 1);
}
