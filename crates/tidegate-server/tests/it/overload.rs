//! More requests than Redis can answer in time: overload is not an outage, and admits nothing beyond a limit.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use tidegate_testbed::Server;

use crate::{
    resp::client::{Client, Reply, command},
    running::Running,
};

const ATTACKERS: usize = 8;
const PIPELINED: usize = 1_000;
const ROUNDS: usize = 4;

/// Reads from a FULL reply whether the check was allowed, and whether it was decided without Redis.
fn allowed_and_degraded(response: &Reply) -> (bool, bool) {
    let is_true = |name: &str| matches!(response.field(name), Reply::Int(1) | Reply::Bool(true));
    (is_true("allowed"), is_true("degraded"))
}

#[test]
fn a_flood_of_pipelined_checks_never_exceeds_the_limit_and_other_keys_are_decided_correctly() {
    let redis = Server::start();
    let policies =
        "[policies.five]\nlimits = [\"5/1h\"]\non_store_failure = \"open\"\n[policies.honest]\nlimits = [\"3/1h\"]";
    let service = Running::start(&format!("[store]\nurl = \"{}\"\n{policies}\n", redis.url()));
    // Reaches the limit even on a busy machine: until then only Redis admits checks.
    let mut first = Client::connect(service.resp);
    let mut admitted = 0;
    loop {
        let response = first.call("TG.CHECK five target ONFAIL closed FULL");
        match allowed_and_degraded(&response) {
            (true, false) => admitted += 1,
            (false, false) => break,
            (allowed, true) => assert!(!allowed, "{response:?}"),
        }
    }
    assert!(admitted <= 5, "{admitted}");
    let flood = command(["TG.CHECK", "five", "target"]).repeat(PIPELINED);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let attackers: Vec<_> = (0..ATTACKERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Client::connect(service.resp);
                    let mut admitted = 0;
                    for _ in 0..ROUNDS {
                        client.send(&flood);
                        admitted += (0..PIPELINED).filter(|_| client.read().numbers()[0] == 1).count();
                    }
                    admitted
                })
            })
            .collect();
        let honest = scope.spawn(|| {
            let mut client = Client::connect(service.resp);
            let (mut requests, mut without_redis) = (0, 0);
            while !over.load(Relaxed) {
                requests += 1;
                let (mut admitted, mut unknown) = (0, 0);
                for _ in 0..5 {
                    let response = client.call(&format!("TG.CHECK honest key-{requests} ONFAIL closed FULL"));
                    match allowed_and_degraded(&response) {
                        (true, false) => admitted += 1,
                        (false, false) => assert!(admitted + unknown >= 3, "denied too early: {response:?}"),
                        (allowed, true) => {
                            assert!(!allowed, "{response:?}");
                            unknown += 1;
                        }
                    }
                }
                assert!(admitted <= 3, "{admitted} of 3 were admitted");
                without_redis += unknown;
            }
            (requests * 5, without_redis)
        });
        let admitted: usize = attackers.into_iter().map(|attacker| attacker.join().expect("it ends")).sum();
        over.store(true, Relaxed);
        let (requests, without_redis) = honest.join().expect("every decision for an honest key is correct");
        println!("{requests} honest decisions, {without_redis} of them without redis");
        assert_eq!(admitted, 0, "the key was at its limit before");
    });
}
