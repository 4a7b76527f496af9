//! The clocks of processes run too slow or too fast.

use tidegate_testbed::Server;

use super::{
    fleet::{Fleet, Record},
    worker::Settings,
};

#[test]
fn processes_whose_clocks_deviate_by_almost_a_percent_never_exceed_the_limit() {
    let server = Server::start();
    let settings = Settings::new(server.url());
    let mut fleet = Fleet::new();
    for clock_rate in [991, 991, 1_000, 1_009] {
        fleet.start(&Settings { clock_rate, ..settings.clone() });
    }
    fleet.run_for(3_000);
    fleet.run_for_leased(1);
    fleet.finish_within_the_limit(&settings);
}

/// The time in microseconds by which a process admits after the end of its lease, if Redis grants no other one.
fn admits_after_the_end(clock_rate: u64) -> u64 {
    let server = Server::start();
    // A lease has more units than are used in its term.
    let settings = Settings { limit: "1_000_000/1m", clock_rate, ..Settings::new(server.url()) };
    let mut fleet = Fleet::new();
    fleet.start(&settings);
    fleet.run_for_leased(50);
    fleet.run_until("a lease", |_, (_, record)| matches!(record, Record::Leased { .. }));
    server.pause();
    let mut unanswered = 0;
    fleet.run_until("requests that nobody decides", |_, (_, record)| {
        unanswered += usize::from(matches!(record, Record::Unanswered { .. }));
        unanswered > 5
    });
    server.resume();
    fleet.finish();
    fleet.latest_by_lease
}

#[test]
fn a_process_whose_clock_is_slow_by_almost_a_percent_admits_nothing_after_the_end_of_its_lease() {
    assert!((0..3).all(|_| admits_after_the_end(991) == 0));
}

#[test]
fn a_clock_that_is_slow_by_half_is_detected() {
    assert!((0..20).any(|_| admits_after_the_end(500) > 0), "the test above would not detect a wrong clock");
}
