//! Redis is killed and starts again with what it has acknowledged.

use tidegate_testbed::Server;

use super::{fleet::Fleet, worker::Settings};

#[test]
fn a_redis_that_writes_before_it_replies_keeps_the_limit_over_restarts() {
    let server = Server::builder().persist().start();
    let settings = Settings::new(server.url());
    let mut fleet = Fleet::new();
    fleet.start_all(4, &settings);
    for _ in 0..8 {
        fleet.run_for(300);
        server.kill();
        server.restart();
    }
    fleet.run_for_leased(100);
    fleet.finish_within_the_limit(&settings);
}
