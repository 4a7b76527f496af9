//! [`RequestStream`]: the requests of all clients in order of time.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    MIN_REQUEST, Traffic,
    behaviour::{Behaviour, clients},
};
use crate::{logs::MAX_DURATION, micros, simulate::random::Random};

/// A simulated request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulatedRequest {
    /// Time in microseconds since the epoch.
    pub time_us: u64,
    /// Number of the client, from 0. [`Traffic::address`] returns its address.
    pub client: u32,
    /// Units that the request costs.
    pub cost: u64,
    /// Duration in microseconds; 0 if requests have no durations.
    pub duration_us: u64,
    /// Purpose of the request.
    pub kind: RequestKind,
}

/// Purpose of a simulated request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RequestKind {
    /// A page that a person opens.
    Page,
    /// An asset of a page.
    Asset,
    /// An API call of a program.
    Api,
    /// A page that a scraper fetches.
    Crawl,
    /// A login attempt.
    Login,
    /// A call of a cron job.
    Job,
}

/// Iterator over the requests of all clients in order of time. It holds only the next request of each client.
pub struct RequestStream {
    clients: Vec<(Behaviour, Random)>,
    /// The next request of each client. At the same time, the client with the lower number comes first.
    next: BinaryHeap<Reverse<(u64, u32, RequestKind)>>,
    cost: u64,
    end_us: u64,
    mean_request_us: u64,
    /// Random numbers of the durations, which no client uses. So durations change nothing else.
    durations: Random,
}

impl RequestStream {
    pub(super) fn new(traffic: &Traffic) -> Self {
        let with_random = |(number, behaviour)| (behaviour, Random::new(traffic.seed, number));
        let mut stream = Self {
            clients: (0..).zip(clients(traffic)).map(with_random).collect(),
            next: BinaryHeap::with_capacity(traffic.clients as usize),
            cost: traffic.cost,
            end_us: traffic.start_us + traffic.duration_us,
            mean_request_us: traffic.mean_request_us,
            durations: Random::new(traffic.seed, u64::MAX - 1),
        };
        for client in 0..traffic.clients {
            stream.schedule(client);
        }
        stream
    }

    /// Adds the next request of a client if it comes before the end.
    fn schedule(&mut self, client: u32) {
        let (behaviour, random) = &mut self.clients[client as usize];
        let (time_us, kind) = behaviour(random);
        if time_us < self.end_us {
            self.next.push(Reverse((time_us, client, kind)));
        }
    }

    /// Returns the duration of the next request.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a random number; a float saturates"
    )]
    fn duration_us(&mut self) -> u64 {
        if self.mean_request_us == 0 {
            return 0;
        }
        let duration_us = self.durations.exponential(self.mean_request_us as f64) as u64;
        duration_us.clamp(micros(MIN_REQUEST), micros(MAX_DURATION))
    }
}

impl Iterator for RequestStream {
    type Item = SimulatedRequest;

    fn next(&mut self) -> Option<SimulatedRequest> {
        let Reverse((time_us, client, kind)) = self.next.pop()?;
        self.schedule(client);
        Some(SimulatedRequest { time_us, client, cost: self.cost, duration_us: self.duration_us(), kind })
    }
}
