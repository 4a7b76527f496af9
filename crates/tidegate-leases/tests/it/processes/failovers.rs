//! Redis loses what it has acknowledged: after k losses, a window holds up to (k + 1) times the limit.

use std::time::Duration;

use tidegate_testbed::Server;

use super::{
    fleet::{Fleet, Record},
    worker::Settings,
};

const LOSSES: u64 = 3;

#[test]
fn after_k_losses_a_window_holds_at_most_k_plus_one_times_the_limit() {
    let server = Server::start();
    // The whole test fits into one window.
    let settings = Settings { limit: "2_000/1h", term: Duration::from_secs(2), ..Settings::new(server.url()) };
    let mut fleet = Fleet::new();
    fleet.start_all(4, &settings);
    for loss in 0..=LOSSES {
        if loss > 0 {
            // Another server takes its place, and has nothing.
            server.kill();
            server.restart();
        }
        // Leases that were granted before the loss go on.
        let enough = fleet.admissions.len() + 1_000;
        fleet.run_until("the limit", |fleet, (_, record)| {
            fleet.admissions.len() >= enough && matches!(record, Record::Denied)
        });
    }
    fleet.finish();
    let (worst, max) = (fleet.worst_window(&settings), settings.limit().max());
    println!("{LOSSES} losses: {worst} units in a window of {max}, at most {} are promised", (LOSSES + 1) * max);
    assert!(worst <= (LOSSES + 1) * max, "{worst}");
    assert!(worst > max, "nothing was lost");
}
