//! Processes that all request the same key, without faults.

use tidegate_testbed::Server;

use super::{fleet::Fleet, worker::Settings};

fn run(admissions: usize) {
    let server = Server::start();
    let settings = Settings::new(server.url());
    let mut fleet = Fleet::new();
    fleet.start_all(4, &settings);
    fleet.run_for(admissions);
    fleet.run_for_leased(1);
    fleet.finish_within_the_limit(&settings);
}

/// The limit allows 500 in a second, so this takes 10 seconds at least.
#[test]
fn four_processes_on_one_hot_key_never_exceed_the_limit() {
    run(5_000);
}

/// `scripts/search` runs it.
#[test]
#[ignore = "it takes a minute"]
fn four_processes_on_one_hot_key_never_exceed_the_limit_for_a_minute() {
    run(30_000);
}
