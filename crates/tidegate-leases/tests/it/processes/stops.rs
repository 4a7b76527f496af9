//! A process is stopped for longer than the term of its lease.

use tidegate::Store as _;
use tidegate_redis::RedisStore;
use tidegate_testbed::{Server, wait_for};

use super::{
    fleet::{Fleet, PATIENCE, Record},
    wall_micros, worker,
    worker::Settings,
};

/// Waits until no lease of the key is open any more, by the clock of Redis.
fn wait_for_the_end_of_all_leases(settings: &Settings) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let redis = {
        let _inside = runtime.enter();
        RedisStore::builder(&settings.url).timeout(PATIENCE).connect().expect("a URL")
    };
    wait_for("the end of all leases", PATIENCE, || {
        let state = runtime.block_on(redis.inspect(&settings.policy(), &worker::key())).expect("an answer");
        let open = state.map_or(0, |state| state.reservations.len());
        if open == 0 { Ok(()) } else { Err(format!("{open} are open")) }
    });
}

#[test]
fn a_process_that_resumes_after_its_term_admits_nothing_by_the_old_lease() {
    for _ in 0..3 {
        let server = Server::start();
        // A lease has more units than are used in its term.
        let settings = Settings { limit: "1_000_000/1m", ..Settings::new(server.url()) };
        let mut fleet = Fleet::new();
        let process = fleet.start(&settings);
        fleet.run_for_leased(50);
        fleet.stop(process);
        wait_for_the_end_of_all_leases(&settings);
        // Without Redis, there is no new lease.
        server.pause();
        let resumed_at = wall_micros();
        fleet.resume(process);
        let mut unanswered = 0;
        fleet.run_until("requests that nobody decides", |_, (_, record)| {
            match record {
                Record::Admitted { admission, by_lease: true } => {
                    assert!(admission.before < resumed_at, "it admitted by a lease that had ended: {admission:?}");
                }
                Record::Unanswered { before } if *before >= resumed_at => unanswered += 1,
                _ => {}
            }
            unanswered > 5
        });
        server.resume();
        fleet.finish_within_the_limit(&settings);
    }
}

#[test]
fn processes_that_are_stopped_again_and_again_never_exceed_the_limit_together() {
    let server = Server::start();
    let settings = Settings::new(server.url());
    let mut fleet = Fleet::new();
    let processes: Vec<_> = (0..4).map(|_| fleet.start(&settings)).collect();
    for round in 0..12 {
        fleet.run_for(150);
        fleet.stop(processes[round % 4]);
        // The others admit for three terms, or until they have admitted the whole limit.
        fleet.run_for(150);
        fleet.resume(processes[round % 4]);
    }
    fleet.finish_within_the_limit(&settings);
}
