//! Messages between the processes and Redis are late, lost and repeated.

use std::time::Duration;

use tidegate_testbed::{Proxy, Server};

use super::{
    fleet::{Fleet, Record},
    worker::Settings,
};

/// Delays of a round trip in milliseconds, one after the other. The last is longer than the term of a lease.
const DELAYS: [u64; 8] = [0, 10, 0, 40, 80, 0, 20, 150];

#[test]
fn late_lost_and_repeated_messages_never_lead_to_more_than_the_limit() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    // The same bytes arrive again on another connection. Lost messages are cut connections: TCP loses nothing else.
    proxy.repeat_every(3);
    // So many requests at once keep the key hot even if each of them waits long.
    let settings = Settings { tasks: 40, pause: Duration::from_millis(40), ..Settings::new(proxy.url()) };
    let mut fleet = Fleet::new();
    fleet.start_all(4, &settings);
    fleet.run_for_leased(50);
    for delay in DELAYS {
        proxy.set_delay(Duration::from_millis(delay));
        for lose_every in [0, 50] {
            proxy.lose_every(lose_every);
            fleet.run_for(200);
        }
    }
    proxy.lose_every(20);
    proxy.set_delay(Duration::from_millis(5));
    fleet.run_until("twenty messages of each fault", |_, _| {
        let faults = proxy.faults();
        faults.lost_requests >= 20 && faults.lost_replies >= 20 && faults.repeated >= 20
    });
    println!("{:?}", proxy.faults());
    proxy.lose_every(0);
    proxy.set_delay(Duration::ZERO);
    fleet.run_for_leased(50);
    fleet.finish_within_the_limit(&settings);
}

#[test]
fn a_lease_whose_answer_comes_after_its_end_is_not_used() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    // The answer needs longer than the term from the grant to the process.
    proxy.set_delay(Duration::from_millis(300));
    let settings = Settings { tasks: 100, pause: Duration::from_millis(40), ..Settings::new(proxy.url()) };
    let mut fleet = Fleet::new();
    fleet.start(&settings);
    let mut leases = 0;
    fleet.run_until("leases", |_, (_, record)| {
        leases += usize::from(matches!(record, Record::Leased { .. }));
        leases >= 5
    });
    fleet.run_for(50);
    fleet.finish();
    assert_eq!(fleet.by_lease, 0, "admissions by leases that have ended");
}
