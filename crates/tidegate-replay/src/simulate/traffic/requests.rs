//! [`Requests`]: what all clients send, in order of time.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    Traffic,
    behaviour::{Behaviour, clients},
};
use crate::simulate::random::Random;

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When, in microseconds since the epoch.
    pub time_us: u64,
    /// Who, from 0; [`Traffic::name`] says what they are called.
    pub client: u32,
    /// What it costs.
    pub cost: u64,
    /// What it is for.
    pub what: What,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A page that a person opens.
    Page,
    /// Something that belongs to a page.
    Asset,
    /// A call of a program.
    Api,
    /// A page that a scraper takes.
    Crawl,
    /// A try to log in.
    Login,
    /// A cron job's call.
    Job,
}

/// What all clients send, in order of time; holds the next request of each.
#[derive(Debug, Clone)]
pub struct Requests {
    clients: Vec<Client>,
    /// Who is next; of two at the same moment, the lower number.
    next: BinaryHeap<Reverse<(u64, u32, What)>>,
    cost: u64,
    end_us: u64,
}

#[derive(Debug, Clone)]
struct Client {
    behaviour: Behaviour,
    random: Random,
}

impl Requests {
    pub(super) fn new(traffic: &Traffic) -> Self {
        let with_random = |(number, behaviour)| Client { behaviour, random: Random::new(traffic.seed, number) };
        let mut requests = Self {
            clients: (0..).zip(clients(traffic)).map(with_random).collect(),
            next: BinaryHeap::with_capacity(traffic.clients as usize),
            cost: traffic.cost,
            end_us: traffic.start_us + traffic.duration_us,
        };
        for client in 0..traffic.clients {
            requests.ask(client);
        }
        requests
    }

    /// Puts a client's next request in line, if it comes before the end.
    fn ask(&mut self, client: u32) {
        let Client { behaviour, random } = &mut self.clients[client as usize];
        let (time_us, what) = behaviour.next(random);
        if time_us < self.end_us {
            self.next.push(Reverse((time_us, client, what)));
        }
    }
}

impl Iterator for Requests {
    type Item = Sent;

    fn next(&mut self) -> Option<Sent> {
        let Reverse((time_us, client, what)) = self.next.pop()?;
        self.ask(client);
        Some(Sent { time_us, client, cost: self.cost, what })
    }
}
