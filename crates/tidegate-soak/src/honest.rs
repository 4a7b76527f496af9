//! Honest clients: each checks one key at a time, at a human pace, and compares every reply with the model.
//!
//! The reply to an admitted request contains the time of the charge, so it is compared exactly. The reply to a denied
//! request does not contain the time of the decision, but its retry time determines it. That time must lie between
//! sending the request and receiving the reply.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tidegate::{Op, Reason};
use tidegate_conformance::model::{Micros, Model, ModelAlgorithm, ModelLimit, ModelPolicy, ModelRequest, Units};
use tidegate_testbed::{Reply, Wire};

/// Maximum difference between the clock of a service and the clock of this program.
const CLOCKS_DIFFER: Micros = 20_000;
/// Number of requests for one key before the client uses another key, because the model keeps the whole history.
const REQUESTS_PER_KEY: usize = 300;
/// Maximum number of wrong replies that are described.
const DESCRIBED: usize = 20;

/// The policies of the services: name, configuration and model.
pub(crate) fn policies() -> [(&'static str, &'static str, ModelPolicy); 5] {
    let limit = |max, seconds: Micros| ModelLimit::new(max, seconds * 1_000_000);
    let log = |limits| ModelPolicy::new(ModelAlgorithm::SlidingLog, limits);
    let one = |algorithm, limit| ModelPolicy::new(algorithm, vec![limit]);
    let burst = ModelLimit { capacity: 10, ..limit(50, 5) };
    [
        ("log", "limits = [\"20/2s\"]", log(vec![limit(20, 2)])),
        ("two", "limits = [\"20/2s\", \"100/20s\"]", log(vec![limit(20, 2), limit(100, 20)])),
        (
            "counter",
            "limits = [\"30/3s\"]\nalgorithm = \"sliding_counter\"",
            one(ModelAlgorithm::SlidingCounter, limit(30, 3)),
        ),
        (
            "buckets",
            "limits = [\"25/5s\"]\nalgorithm = \"sliding_buckets:10\"",
            one(ModelAlgorithm::SlidingBuckets(10), limit(25, 5)),
        ),
        ("gcra", "limits = [\"50/5s\"]\nalgorithm = \"gcra:10\"", one(ModelAlgorithm::Gcra, burst)),
    ]
}

/// The results of the honest clients of one service.
#[derive(Debug, Default)]
pub(crate) struct Totals(Mutex<Counts>);

/// Counts of replies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) compared: u64,
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    /// Replies that are marked degraded and therefore promise less. They are counted but not compared.
    pub(crate) degraded: u64,
    /// Requests without a reply: the connection was lost.
    pub(crate) lost: u64,
    pub(crate) wrong: u64,
    /// Descriptions of the first wrong replies.
    pub(crate) described: Vec<String>,
}

impl Totals {
    pub(crate) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The compared fields of one reply.
#[derive(Debug)]
pub(crate) struct CheckReply {
    allowed: bool,
    reason: String,
    remaining: Units,
    retry_after_ms: Option<Micros>,
    reset_after_ms: Micros,
    charged_at: Option<Micros>,
    pub(crate) degraded: bool,
}

/// Sends checks until `stop` is set.
pub(crate) fn run(client: usize, address: &str, totals: &Totals, stop: &AtomicBool) {
    let policies = policies();
    for number in 0.. {
        let (name, _, policy) = &policies[(client + number) % policies.len()];
        let Ok(mut connection) = Wire::try_connect(address) else {
            totals.counts().lost += 1;
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let key = format!("honest-{client}-{number}");
        let mut model = Model::default();
        for _ in 0..REQUESTS_PER_KEY {
            if stop.load(Relaxed) {
                return;
            }
            let cost = *fastrand::choice(&[1, 1, 1, 2, 5]).expect("the list is not empty");
            let sent = now();
            let reply =
                connection.try_command(["TG.CHECK", name, key.as_str(), "COST", cost.to_string().as_str(), "FULL"]);
            let received = now();
            let Some(reply) = reply.ok().and_then(|reply| CheckReply::parse(&reply)) else {
                // Whether the request was charged is not known, so the key can't be compared any more.
                totals.counts().lost += 1;
                break;
            };
            if reply.degraded {
                totals.counts().degraded += 1;
                pause();
                break;
            }
            let comparison = compare(&mut model, &ModelRequest::new(policy, cost), &reply, (sent, received));
            let mut counts = totals.counts();
            counts.compared += 1;
            *(if reply.allowed { &mut counts.admitted } else { &mut counts.denied }) += 1;
            if let Err(reason) = comparison {
                counts.wrong += 1;
                if counts.described.len() < DESCRIBED {
                    counts.described.push(format!("{name} {key} cost {cost} at {sent}: {reason}: {reply:?}"));
                }
                break;
            }
            drop(counts);
            pause();
        }
    }
}

/// The time of the wall clock in microseconds since the epoch, as the services read it.
fn now() -> Micros {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    Micros::try_from(elapsed.as_micros()).expect("microseconds fit")
}

/// Waits for a short random time.
fn pause() {
    thread::sleep(Duration::from_millis(fastrand::u64(0..60)));
}

fn compare(
    model: &mut Model,
    request: &ModelRequest,
    reply: &CheckReply,
    (sent, received): (Micros, Micros),
) -> Result<(), String> {
    if let (true, Some(at)) = (reply.allowed, reply.charged_at) {
        if !(sent - CLOCKS_DIFFER..=received + CLOCKS_DIFFER).contains(&at) {
            return Err(format!("charged at {at}, outside of {sent} to {received}"));
        }
        let expected = model.decide(Op::Peek, request, at);
        if expected.reason != Reason::Allowed {
            return Err(format!("the model denies it: {expected:?}"));
        }
        let expected = model.decide(Op::Charge, request, at);
        let same = expected.remaining == reply.remaining
            && rounded_up(expected.reset_after) == reply.reset_after_ms
            && reply.reason == "allowed";
        return if same { Ok(()) } else { Err(format!("the model expects {expected:?}")) };
    }
    if reply.allowed || reply.reason != "limited" {
        return Err("no policy of the test gives this reply".to_owned());
    }
    let earliest = sent - CLOCKS_DIFFER;
    let expected = model.decide(Op::Peek, request, earliest);
    let (Some(wait), Some(retry_after_ms)) = (expected.retry_after, reply.retry_after_ms) else {
        return Err(format!("the model admits it: {expected:?}"));
    };
    // The time of the decision, computed from its retry time, up to rounding.
    let decided = earliest + wait - retry_after_ms * 1000;
    let range = earliest - 1000..=received + CLOCKS_DIFFER;
    if range.contains(&decided) { Ok(()) } else { Err(format!("the model expects {expected:?} at {earliest}")) }
}

fn rounded_up(micros: Micros) -> Micros {
    micros.div_euclid(1000) + Micros::from(micros.rem_euclid(1000) != 0)
}

impl CheckReply {
    pub(crate) fn parse(reply: &Reply) -> Option<Self> {
        let Reply::Array(fields) = reply else { return None };
        let field = |name: &str| {
            let mut pairs = fields.chunks_exact(2);
            pairs
                .find(|pair| matches!(&pair[0], Reply::Bulk(Some(found)) if found == name.as_bytes()))
                .map(|pair| &pair[1])
        };
        let number = |name: &str| match field(name)? {
            Reply::Integer(number) => Some(i128::from(*number)),
            _ => None,
        };
        let text = |name: &str| match field(name)? {
            Reply::Bulk(Some(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            Reply::Simple(text) => Some(text.clone()),
            _ => None,
        };
        Some(Self {
            allowed: number("allowed")? == 1,
            reason: text("reason")?,
            remaining: number("remaining")?,
            retry_after_ms: number("retry_after_ms"),
            reset_after_ms: number("reset_after_ms")?,
            charged_at: number("charged_at_us"),
            degraded: number("degraded")? == 1,
        })
    }
}
