//! [`Trial`]: one trace, decided by several algorithms side by side.
//!
//! Each algorithm has a store of its own and an `audit`: an exact log of what it let through. The exact log runs beside them
//! all. `memory` follows some of the clients to see what their states take, and `timeline` keeps what was let through over
//! time. Memory grows with clients, not with requests.

pub(super) mod audit;
mod limiter;
mod memory;
mod results;
mod timeline;

use hashbrown::HashMap;
use tidegate::{Algorithm, Cost, Key, Limit, Timestamp};

use self::{limiter::Limiter, memory::Followed};
pub use self::{
    memory::FOLLOWED,
    results::{Asked, Trialled, Tried, Wrong},
    timeline::Timeline,
};
use super::traffic::{Traffic, TrafficError, window_us};
use crate::bins::Bins;

/// The most algorithms that are tried at once; more are left out.
pub const MAX_ALGORITHMS: usize = 32;

/// One trace, decided by several algorithms side by side.
///
/// ```
/// use tidegate::{Algorithm, Cost, Key, Timestamp};
/// use tidegate_replay::simulate::trial::Trial;
///
/// let mut trial = Trial::new("2/1s".parse()?, &[Algorithm::FixedWindow]);
/// for time in [999_998, 999_999, 1_000_000, 1_000_001] {
///     trial.request(Timestamp::from_micros(time), &Key::new("alice")?, Cost::ONE);
/// }
/// let trialled = trial.finish("by hand");
/// let [log, fixed] = &trialled.algorithms[..] else { panic!() };
/// assert_eq!((log.worst_window_units, fixed.worst_window_units), (2, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Trial {
    limit: Limit,
    window_us: u64,
    /// The exact log, then the others.
    limiters: Vec<Limiter>,
    numbers: HashMap<Key<'static>, usize>,
    clients: Vec<Client>,
    followed: Followed,
    bins: Bins,
    asked: Asked,
}

/// What is known of a client.
#[derive(Debug, Clone, Copy)]
struct Client {
    /// One bit for each algorithm that has denied it something.
    denied_by: u32,
    mark: memory::Mark,
}

impl Trial {
    /// Makes a trial of `algorithms` beside the exact log, which comes first whether it is named or not.
    pub fn new(limit: Limit, algorithms: &[Algorithm]) -> Self {
        let mut all = vec![Algorithm::SlidingLog];
        for algorithm in algorithms {
            if !all.contains(algorithm) && all.len() < MAX_ALGORITHMS {
                all.push(*algorithm);
            }
        }
        Self {
            limit,
            window_us: window_us(limit),
            followed: Followed::new(limit, &all),
            bins: Bins::new(timeline::MOST, vec![true; 1 + all.len()]),
            limiters: all.into_iter().map(|algorithm| Limiter::new(limit, algorithm)).collect(),
            numbers: HashMap::new(),
            clients: Vec::new(),
            asked: Asked::default(),
        }
    }

    /// Lets all algorithms decide a request. One that is earlier than the latest by more than a window is moved to there: no
    /// algorithm promises anything beyond that.
    pub fn request(&mut self, now: Timestamp, key: &Key<'_>, cost: Cost) {
        let earliest = self.asked.to_us.unwrap_or(0).saturating_sub(self.window_us);
        let moved = now.as_micros() < earliest;
        let now = Timestamp::from_micros(now.as_micros().max(earliest));
        self.asked.note(now, cost, moved);
        let number = self.number(key);
        let bin = self.bins.at(now.as_micros());
        bin[0] = bin[0].saturating_add(cost.get());

        let mut right = true;
        for (place, limiter) in self.limiters.iter_mut().enumerate() {
            let admitted = limiter.decide(key, cost, now);
            if place == 0 {
                right = admitted;
            }
            limiter.compare(admitted, right);
            if admitted {
                bin[1 + place] = bin[1 + place].saturating_add(cost.get());
                self.followed.charge(self.clients[number].mark, place, key, cost, now);
            } else {
                self.clients[number].denied_by |= 1 << place;
            }
        }
    }

    /// Ends the trial; `name` says what the trace was.
    pub fn finish(self, name: &str) -> Trialled {
        let Self { limit, limiters, clients, followed, bins, mut asked, window_us, .. } = self;
        asked.clients = clients.len() as u64;
        let tried = |(place, limiter): (usize, Limiter)| {
            let touched = clients.iter().filter(|client| client.denied_by & 1 << place != 0).count();
            limiter.result(&asked, touched as u64, followed.mean_bytes(place))
        };
        Trialled {
            trace: name.to_owned(),
            limit: limit.to_string(),
            max: limit.max(),
            window_us,
            timeline: Timeline::of(&bins, limiters.len()),
            algorithms: limiters.into_iter().enumerate().map(tried).collect(),
            asked,
        }
    }

    /// The client's number, from 0 in the order they came.
    fn number(&mut self, key: &Key<'_>) -> usize {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = self.clients.len();
        self.clients.push(Client { denied_by: 0, mark: self.followed.meet(key) });
        self.numbers.insert(key.clone().into_owned(), number);
        number
    }
}

/// Tries algorithms on made-up traffic.
///
/// # Errors
/// If the traffic can't be made.
#[expect(clippy::missing_panics_doc, reason = "names are keys, and the cost is checked before")]
pub fn run(traffic: &Traffic, limit: Limit, algorithms: &[Algorithm]) -> Result<Trialled, TrafficError> {
    let requests = traffic.requests()?;
    let names: Vec<String> = (0..traffic.clients).map(|client| traffic.name(client)).collect();
    let mut trial = Trial::new(limit, algorithms);
    for sent in requests {
        let key = Key::new(&names[sent.client as usize]).expect("a name is a key");
        let cost = Cost::new(sent.cost).expect("the cost is checked before");
        trial.request(Timestamp::from_micros(sent.time_us), &key, cost);
    }
    Ok(trial.finish(traffic.shape.as_str()))
}
