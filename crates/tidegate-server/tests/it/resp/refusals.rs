//! A wrong command gets an error with a hint, and the connection stays open.

use super::{
    client::{Client, Reply, command},
    service, service_with,
};

#[test]
fn a_wrong_command_gets_an_error_with_a_hint() {
    let service = service();
    let mut client = Client::connect(service.resp);
    let usage = "use TG.CHECK policy key [COST n] [OPERATION name] [ONFAIL open|closed|local] [FULL]";
    for (words, expected) in [
        ("TG.CHECK", &*format!("ERR wrong number of arguments for 'tg.check' command: {usage}")),
        ("TG.CHECK api", "ERR wrong number of arguments for 'tg.check' command"),
        ("TG.CHECK api k COST", "ERR wrong number of arguments for 'tg.check' command"),
        ("TG.CHECK api k COSTS 1", &format!("ERR syntax error: `COSTS` is not an option, {usage}")),
        ("TG.CHECK api k ALGORITHM gcra", "ERR syntax error: `ALGORITHM` is not an option"),
        ("TG.CHECK apo k", "ERR there is no policy `apo`: did you mean `api`?"),
        (
            "TG.CHECK nothing-like-it k",
            "ERR there is no policy `nothing-like-it`: the policies are `api`, `burst`, `login`, `quota`, `watched` and 1 more",
        ),
        ("TG.CHECK api k COST 0", "ERR a cost of 0 is out of range: use 1 to 1000000000000, or peek"),
        ("TG.CHECK api k COST 1000000000001", "ERR a cost of 1000000000001 is out of range"),
        ("TG.CHECK api k COST 99999999999999999999", "ERR COST `99999999999999999999` is not a whole number"),
        ("TG.CHECK api k COST -1", "ERR COST `-1` is not a whole number: use 1 to 1000000000000"),
        ("TG.CHECK api k COST 1.5", "ERR COST `1.5` is not a whole number"),
        ("TG.CHECK api k ONFAIL maybe", "ERR `maybe` is not a behaviour when the store fails: use open, closed"),
        ("TG.CHECK api k ONFAIL local:2", "ERR a share of `2` is out of range"),
        ("TG.CHECK api k OPERATION x", "ERR the policy has no operation `x`; it has: none"),
        ("TG.CHECK quota k OPERATION x", "ERR the policy has no operation `x`; it has: search.list"),
        ("TG.CHECK quota k OPERATION x COST 1", "ERR COST and OPERATION can't be combined: use one of them"),
        ("TG.CHECK api ", "ERR the key is empty: use 1 to 1024 bytes"),
        ("TG.CHECKALL api k", "ERR wrong number of arguments for 'tg.checkall' command: use TG.CHECKALL policy"),
        ("TG.CHECKALL api k 1 api", "ERR wrong number of arguments for 'tg.checkall' command"),
        ("TG.CHECKALL api k x", "ERR the cost `x` is not a whole number"),
        ("TG.CHECKALL api k 1 ap k 1", "ERR there is no policy `ap`: did you mean `api`?"),
        ("TG.LIMIT k", "ERR wrong number of arguments for 'tg.limit' command"),
        ("TG.LIMIT k COST 1", "ERR the policy has no limits: give it 1 to 8"),
        ("TG.LIMIT k 5", "ERR `5` is not a limit: write units and window, as in `100/1m`"),
        ("TG.LIMIT k 5/1s 6/1s", "ERR two limits have the same window as `6/1s`"),
        ("TG.LIMIT k 5/2d", "ERR the window of `5/2d` is longer than callers may supply: use at most 5/1d"),
        ("TG.LIMIT k 5/1s 5/2s 5/3s 5/4s 5/5s 5/6s 5/7s 5/8s 5/9s", "ERR the policy has more than 8 limits"),
        (
            "TG.PEEK api k ONFAIL open",
            "ERR syntax error: `ONFAIL` is not an option, use TG.PEEK policy key [COST n] [FULL]",
        ),
        ("TG.CHARGE api k", "ERR wrong number of arguments for 'tg.charge' command"),
        ("TG.CHARGE api k 0", "ERR a cost of 0 is out of range"),
        ("TG.CHARGE api k 1 FULLY", "ERR syntax error: `FULLY` is not an option"),
        ("TG.REFUND api k 1", "ERR wrong number of arguments for 'tg.refund' command"),
        ("TG.REFUND api k 1 yesterday", "ERR charged_at_us `yesterday` is not a time: use the sixth number"),
        ("TG.REFUND api k 1 -5", "ERR charged_at_us `-5` is not a time"),
        ("TG.RESET api", "ERR wrong number of arguments for 'tg.reset' command: use TG.RESET policy key"),
        ("TG.INSPECT ap k", "ERR there is no policy `ap`: did you mean `api`?"),
        ("CL.THROTTLE k 1 1", "ERR wrong number of arguments for 'cl.throttle' command"),
        ("CL.THROTTLE k 1 1 1 1 1", "ERR wrong number of arguments for 'cl.throttle' command"),
        ("CL.THROTTLE k 1 0 60", "ERR a limit of 0 units is out of range"),
        ("CL.THROTTLE k 1 30 0", "ERR the window is out of range"),
        ("CL.THROTTLE k 1 30 31622401", "ERR the window is out of range"),
        ("CL.THROTTLE k -1 30 60", "ERR max_burst must be a whole number of at least 0, not `-1`"),
        (
            "CL.THROTTLE k 1 30 60 -1",
            "ERR quantity must be a whole number of at least 0, not `-1`. To give units back, use TG.CHECK",
        ),
        ("CL.THROTTLE k 1000000000000 30 60", "ERR max_burst + 1: a burst of 1000000000001 is out of range"),
        ("CL.THROTTLE k 18446744073709551615 30 60", "ERR max_burst + 1: a burst of"),
        ("CL.THROTTLE k 1 30 60 1000000000001", "ERR quantity: a cost of 1000000000001 is out of range"),
        ("GET k", "ERR unknown command 'GET', with args beginning with: 'k' "),
        ("MULTI now", "ERR wrong number of arguments for 'multi' command"),
        ("EXEC", "ERR EXEC without MULTI"),
        ("CONFIG SET save x", "ERR CONFIG SET is not supported"),
        ("CLUSTER INFO", "ERR This instance has cluster support disabled"),
        ("SELECT 1", "ERR DB index is out of range"),
        ("SELECT x", "ERR value is not an integer or out of range"),
    ] {
        let reply = client.call(words);
        assert!(reply.error().starts_with(expected), "{words}\n gives  {}\n expected {expected}", reply.error());
    }
    assert_eq!(client.call("PING"), Reply::Simple("PONG".to_owned()), "the connection stays open");
    assert_eq!(client.call("TG.PEEK api k").numbers()[2], 3, "nothing was spent");
}

#[test]
fn input_cannot_break_the_line_of_an_error() {
    let service = service();
    let mut client = Client::connect(service.resp);
    client.send(&command([b"NO\r\n+OK".as_slice(), b"\xff\x00\r\n"]));
    let reply = client.read();
    assert!(reply.error().starts_with("ERR unknown command 'NO  +OK'"), "{reply:?}");
    client.send(&command([b"TG.CHECK".as_slice(), b"\xff", b"k"]));
    assert!(client.read().error().contains("is not UTF-8"));
    client.send(&command([b"TG.CHECK".as_slice(), b"api", &[b'k'; 1025]]));
    assert!(client.read().error().starts_with("ERR the key has 1025 bytes"));
    client.send(&command([vec![b'x'; 5_000], vec![b'y'; 5_000]]));
    assert!(client.read().error().len() < 1_000);
    assert_eq!(client.call("PING"), Reply::Simple("PONG".to_owned()));
}

#[test]
fn too_many_checks_at_once_are_refused() {
    let service = service();
    let mut client = Client::connect(service.resp);
    let words = |count: usize| format!("TG.CHECKALL{}", " wide k 1".repeat(count));
    assert_eq!(client.call(&words(64)).numbers()[0], 1);
    assert!(client.call(&words(65)).error().contains("64"));
}

#[test]
fn limits_supplied_by_callers_can_be_disabled() {
    let service = service_with("caller_limits = false");
    let mut client = Client::connect(service.resp);
    let reply = client.call("TG.LIMIT k 5/1s");
    assert_eq!(reply.error(), "ERR limits supplied by callers are disabled here: name a policy");
}
