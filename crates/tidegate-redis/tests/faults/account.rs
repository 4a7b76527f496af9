//! [`Account`]: the outcome of every decision of a run, the units in the fullest window, and the units in Redis.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use tidegate::{Store as _, Timestamp};
use tidegate_redis::{RedisStore, Stats};

use crate::{
    load::{CompletedRun, Outcome, Record, RequestKind},
    subjects::{SUBJECTS, TIGHT_MAX, key, roomy, tight},
};

/// The promise about a fault.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Promise {
    /// Redis keeps everything.
    KeepsAll,
    /// Redis loses once all charges up to this time.
    LosesAll { until: Timestamp },
    /// Redis may lose once the charges of some subjects up to this time.
    LosesSome { until: Timestamp, of: [bool; SUBJECTS] },
}

impl Promise {
    /// The maximum units of the tight policy in a window: (k + 1) times the limit after k losses.
    fn bound(self) -> u64 {
        match self {
            Self::KeepsAll => TIGHT_MAX,
            Self::LosesAll { .. } | Self::LosesSome { .. } => 2 * TIGHT_MAX,
        }
    }

    /// Whether Redis must have kept this charge.
    fn keeps(self, subject: usize, at: Timestamp) -> bool {
        match self {
            Self::KeepsAll => true,
            Self::LosesAll { until } => at > until,
            Self::LosesSome { until, of } => at > until || !of[subject],
        }
    }

    /// Whether Redis may have kept this charge.
    fn may_keep(self, at: Timestamp) -> bool {
        !matches!(self, Self::LosesAll { until } if at <= until)
    }
}

/// How often the store probes a server that does not answer.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);

/// The result of a run: the numbers of a row of the table.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) stats: Stats,
    pub(crate) decisions: u64,
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    pub(crate) degraded_admitted: u64,
    pub(crate) degraded_denied: u64,
    pub(crate) inspections: u64,
    pub(crate) failed: BTreeMap<&'static str, u64>,
    slowest: Duration,
    fullest: u64,
    /// Decisions without Redis that began later than a probe interval after Redis answered again.
    too_late: Option<u64>,
    /// Units of the roomy policy that callers know were admitted, that are in Redis, and that Redis may have lost.
    known: u64,
    in_redis: u64,
    lost: u64,
    /// Additional units in Redis: of decisions whose reply came too late or never.
    unexplained: u64,
}

impl Account {
    /// Accounts for a run and checks the promise. `url` is where the charges are now; `answered` is when Redis
    /// answered a PING again.
    #[track_caller]
    pub(crate) fn of(run: &CompletedRun, url: &str, promise: Promise, answered: Option<Instant>) -> Self {
        let observer = {
            let _inside = run.runtime.enter();
            RedisStore::builder(url).timeout(Duration::from_secs(5)).connect().expect("a store")
        };
        let in_redis = run.runtime.block_on(units_in_redis(&observer));
        let mut account = Self::add_up(run, answered);
        account.agrees_with_the_store();
        account.fullest = account.fullest_window(&run.records, promise);
        account.reconciles(&run.records, &in_redis, promise);
        account
    }

    fn add_up(run: &CompletedRun, answered: Option<Instant>) -> Self {
        let mut account = Self {
            stats: run.store.stats(),
            decisions: 0,
            admitted: 0,
            denied: 0,
            degraded_admitted: 0,
            degraded_denied: 0,
            inspections: 0,
            failed: BTreeMap::new(),
            slowest: Duration::ZERO,
            fullest: 0,
            too_late: answered.map(|_| 0),
            known: 0,
            in_redis: 0,
            lost: 0,
            unexplained: 0,
        };
        for record in &run.records {
            account.count(record);
            if record.kind != RequestKind::Inspect {
                account.slowest = account.slowest.max(record.took);
            }
            let late = answered.is_some_and(|answered| record.began > answered + PROBE_INTERVAL);
            if late && matches!(record.outcome, Outcome::Degraded(..)) {
                account.too_late = account.too_late.map(|count| count + 1);
            }
        }
        let all = account.admitted + account.denied + account.degraded() + account.inspections;
        assert_eq!(all, run.issued, "every request issued came to exactly one end");
        assert!(account.slowest < Duration::from_secs(10), "a decision took {:?}", account.slowest);
        account
    }

    fn count(&mut self, record: &Record) {
        let counter = match &record.outcome {
            Outcome::Admitted(_) => &mut self.admitted,
            Outcome::Denied => {
                assert_eq!(record.kind, RequestKind::Tight, "there is always room under the other policy");
                &mut self.denied
            }
            Outcome::Degraded(true, _) => &mut self.degraded_admitted,
            Outcome::Degraded(false, _) => &mut self.degraded_denied,
            Outcome::Inspected => &mut self.inspections,
            Outcome::Failed(error) => {
                *self.failed.entry(error.cause()).or_default() += 1;
                &mut self.inspections
            }
        };
        *counter += 1;
        self.decisions += u64::from(record.kind != RequestKind::Inspect);
    }

    pub(crate) fn degraded(&self) -> u64 {
        self.degraded_admitted + self.degraded_denied
    }

    /// Decisions that may have been charged: their reply came too late or never.
    pub(crate) fn unknown(&self) -> u64 {
        let outcome_of = |name| self.stats.errors.get(name).copied().unwrap_or(0);
        outcome_of("timeout") + outcome_of("lost")
    }

    /// The store's counters agree with its callers.
    fn agrees_with_the_store(&self) {
        let Stats { allowed, denied, degraded_open, degraded_closed, degraded_local, remembered, .. } = self.stats;
        assert_eq!((allowed, denied), (self.admitted, self.denied));
        assert_eq!(degraded_open + degraded_closed + degraded_local + remembered, self.degraded());
        assert_eq!(self.stats.errors.values().sum::<u64>(), self.degraded(), "each has a reason");
    }

    /// The maximum units of one subject that Redis admitted within any window. While Redis did not answer, this process
    /// admitted no more than half the limit.
    fn fullest_window(&self, records: &[Record], promise: Promise) -> u64 {
        let tight = |subject: usize| {
            records.iter().filter(move |record| record.kind == RequestKind::Tight && record.subject == subject)
        };
        let mut fullest = 0;
        for subject in 0..SUBJECTS {
            let by_redis = tight(subject).filter_map(|record| match record.outcome {
                Outcome::Admitted(at) => Some((at, record.units)),
                _ => None,
            });
            let here = tight(subject).filter_map(|record| match record.outcome {
                Outcome::Degraded(true, at) => Some((at.expect("counted here"), record.units)),
                _ => None,
            });
            fullest = fullest.max(max_in_a_window(by_redis));
            let local = max_in_a_window(here);
            assert!(local <= TIGHT_MAX / 2, "{local} were admitted in this process in one window");
        }
        let bound = promise.bound();
        assert!(fullest <= bound, "a window held {fullest}, promised were {bound}: {self:?}");
        fullest
    }

    /// Every charge that a caller knows of is in Redis, unless Redis lost it. Redis has no other charges than those whose reply
    /// was lost.
    fn reconciles(&mut self, records: &[Record], in_redis: &[u64; SUBJECTS], promise: Promise) {
        for (subject, in_redis) in in_redis.iter().enumerate() {
            let (mut all, mut most, mut least) = (0, 0, 0);
            for record in records.iter().filter(|r| r.kind == RequestKind::Roomy && r.subject == subject) {
                if let Outcome::Admitted(at) = record.outcome {
                    all += record.units;
                    most += if promise.may_keep(at) { record.units } else { 0 };
                    least += if promise.keeps(subject, at) { record.units } else { 0 };
                }
            }
            assert!(
                *in_redis >= least,
                "subject {subject}: redis holds {in_redis} of {least} admitted units: {self:?}"
            );
            self.known += all;
            self.in_redis += in_redis;
            self.unexplained += in_redis.saturating_sub(most);
            self.lost += (all + in_redis.saturating_sub(most)).saturating_sub(*in_redis);
        }
        assert!(self.unexplained <= self.unknown(), "redis holds more than was admitted: {self:?}");
    }

    /// Prints the row of a fault.
    pub(crate) fn print(&self, fault: &str, promise: Promise) {
        let failed: u64 = self.failed.values().sum();
        let inspections = self.inspections;
        let late = self.too_late.map_or_else(|| "–".to_owned(), |count| count.to_string());
        println!(
            "| {fault} | {} | {} | {} | {} + {} | {failed} of {inspections} | {:.1} ms | {late} | {} / {TIGHT_MAX} / {} | {} admitted, {} held{}{} |",
            self.decisions,
            self.admitted,
            self.denied,
            self.degraded_admitted,
            self.degraded_denied,
            self.slowest.as_secs_f64() * 1000.0,
            self.fullest,
            promise.bound(),
            self.known,
            self.in_redis,
            if self.lost > 0 { format!(", {} lost", self.lost) } else { String::new() },
            if self.unknown() > 0 {
                format!(", {} of {} unknown charged", self.unexplained, self.unknown())
            } else {
                String::new()
            },
        );
    }
}

/// The units in the fullest of all windows (t - window, t].
fn max_in_a_window(charges: impl Iterator<Item = (Timestamp, u64)>) -> u64 {
    let window = u64::try_from(tight().limits()[0].window().as_micros()).expect("half a second");
    let mut charges: Vec<_> = charges.map(|(at, units)| (at.as_micros(), units)).collect();
    charges.sort_unstable();
    let (mut first, mut in_redis, mut most) = (0, 0, 0);
    for (at, units) in &charges {
        in_redis += units;
        while charges[first].0 + window <= *at {
            in_redis -= charges[first].1;
            first += 1;
        }
        most = most.max(in_redis);
    }
    most
}

/// The units of each subject under the roomy policy in Redis.
async fn units_in_redis(observer: &RedisStore) -> [u64; SUBJECTS] {
    observer.ready().await;
    let mut in_redis = [0; SUBJECTS];
    for (subject, in_redis) in in_redis.iter_mut().enumerate() {
        let inspection = observer.inspect(&roomy(), &key(subject)).await.expect("redis answers");
        *in_redis = inspection.map_or(0, |inspection| inspection.limits[0].used);
    }
    in_redis
}
