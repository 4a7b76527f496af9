//! Processes are killed with units in their leases.

use tidegate_testbed::Server;

use super::{fleet::Fleet, worker::Settings};

/// Admissions between two kills.
const ADMISSIONS: usize = 300;
const KILLS: usize = 12;

#[test]
fn processes_that_are_killed_never_exceed_the_limit_together() {
    let server = Server::start();
    let settings = Settings::new(server.url());
    let mut fleet = Fleet::new();
    fleet.start_all(3, &settings);
    for _ in 0..KILLS {
        let victim = fleet.start(&settings);
        fleet.run_until("an admission by the new process", |_, (number, _)| *number == victim);
        fleet.run_for(ADMISSIONS);
        fleet.kill(victim);
    }
    fleet.finish_within_the_limit(&settings);
}
