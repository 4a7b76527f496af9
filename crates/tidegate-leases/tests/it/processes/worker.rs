//! One process. It requests admission of one key again and again, and prints what it gets:
//!
//! - `admitted BEFORE AFTER LEASED`: the times between which a request was admitted, and 1 if a lease decided
//! - `denied`: the limit was reached
//! - `unanswered BEFORE`: Redis did not decide a request that began at this time
//! - `leased UNTIL`: a lease that ends in Redis at this time or before

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use tidegate::{
    Cost, Decision, Decisions, Inspection, Key, Lease, Leased, Limit, Op, Policy, PolicySource, Refund, ReservationId,
    Settled, Spend, Store, StoreError, Timestamp,
};
use tidegate_leases::{LeasedStore, Node, TermClock};
use tidegate_redis::RedisStore;

use super::{dated_at_grant::DatedAtGrant, wall_micros};

/// What a process does.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) url: String,
    pub(super) limit: &'static str,
    pub(super) term: Duration,
    /// Requests at once.
    pub(super) tasks: usize,
    /// The pause of a task after each request.
    pub(super) pause: Duration,
    /// The rate of the clock that measures terms, in thousandths.
    pub(super) clock_rate: u64,
    /// Whether leases are charged at their grant, which is wrong.
    pub(super) dates_at_grant: bool,
}

impl Settings {
    /// Four requests at once, as fast as others can run beside them.
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            limit: "500/1s",
            term: Duration::from_millis(100),
            tasks: 4,
            pause: Duration::from_millis(1),
            clock_rate: 1_000,
            dates_at_grant: false,
        }
    }

    pub(super) fn limit(&self) -> Limit {
        self.limit.parse().expect("a limit")
    }

    pub(super) fn policy(&self) -> Policy {
        let policy = Policy::new("hot", [self.limit()]).expect("a policy");
        // Denials are repeated only briefly, so that the process asks Redis often.
        policy.with_lease(self.term).expect("a term").with_deny_cache(Duration::from_millis(50))
    }

    /// The command that runs this test binary as a process.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        let numbers = [self.term.as_millis(), self.tasks as u128, self.pause.as_millis(), self.clock_rate.into()];
        let numbers = numbers.map(|number| number.to_string()).join(" ");
        command
            .args(["processes::worker::worker", "--exact", "--ignored", "--nocapture"])
            .env("TIDEGATE_TEST_WORKER", format!("{} {} {numbers} {}", self.url, self.limit, self.dates_at_grant))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    fn from_environment() -> Option<Self> {
        let text = std::env::var("TIDEGATE_TEST_WORKER").ok()?;
        let [url, limit, term, tasks, pause, clock_rate, dates_at_grant] =
            text.split(' ').collect::<Vec<_>>().try_into().expect("seven words");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        Some(Self {
            url: url.to_owned(),
            limit: limit.to_owned().leak(),
            term: Duration::from_millis(number(term)),
            tasks: usize::try_from(number(tasks)).expect("few"),
            pause: Duration::from_millis(number(pause)),
            clock_rate: number(clock_rate),
            dates_at_grant: dates_at_grant == "true",
        })
    }

    /// The clock that measures terms.
    fn clock(&self) -> TermClock {
        let rate = self.clock_rate;
        if rate == 1_000 {
            return TermClock::machine();
        }
        TermClock::from_fn(move || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let micros = time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1_000;
            micros / 1_000 * rate + micros % 1_000 * rate / 1_000
        })
    }
}

#[test]
#[ignore = "a process of the other tests"]
fn worker() {
    let Some(settings) = Settings::from_environment() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let patience = Duration::from_secs(2);
        let redis = RedisStore::builder(&settings.url).timeout(patience).connect_timeout(10 * patience);
        let redis = redis.connect().expect("a URL");
        redis.ready().await;
        if settings.dates_at_grant {
            run(&settings, Recorded(DatedAtGrant::new(redis))).await;
        } else {
            run(&settings, Recorded(redis)).await;
        }
    });
}

async fn run(settings: &Settings, shared: impl Store + 'static) {
    let store = LeasedStore::with_clock(shared, Node::default(), settings.clock()).expect("it has leases");
    let (policy, pause) = (settings.policy(), settings.pause);
    let request = || {
        let (store, policy) = (store.clone(), policy.clone());
        tokio::spawn(async move {
            loop {
                let before = wall_micros();
                let decision = store.check(&policy, &key(), Cost::ONE).await;
                let after = wall_micros();
                match decision {
                    Ok(decision) if decision.is_degraded() => println!("unanswered {before}"),
                    Err(_) => println!("unanswered {before}"),
                    Ok(decision) if decision.is_allowed() => {
                        println!("admitted {before} {after} {}", u8::from(decision.is_leased()));
                    }
                    Ok(_) => println!("denied"),
                }
                // Other processes need the processor, too.
                tokio::time::sleep(pause).await;
            }
        })
    };
    let tasks: Vec<_> = (0..settings.tasks).map(|_| request()).collect();
    // The end of the input tells the process to end.
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().lines().count());
    ended.await.expect("a thread");
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    store.close().await;
}

/// The key that all processes request.
pub(super) fn key() -> Key<'static> {
    Key::from(1_u8)
}

/// Prints when each lease has certainly ended in the store.
struct Recorded<S>(S);

impl<S: Store> Store for Recorded<S> {
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        self.0.decide(op, policy, key, cost).await
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        self.0.decide_all(op, spends).await
    }

    async fn refund(&self, policy: &Policy, key: &Key<'_>, cost: Cost, at: Timestamp) -> Result<Refund, StoreError> {
        self.0.refund(policy, key, cost, at).await
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        self.0.reset(policy, key).await
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        self.0.inspect(policy, key).await
    }

    async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
        let leased = self.0.lease(policy, key, lease).await?;
        if leased.id.is_some() {
            println!("leased {}", wall_micros() + u64::try_from(lease.ttl.as_micros()).expect("in range"));
        }
        Ok(leased)
    }

    async fn settle(&self, id: &ReservationId, spent: u64, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        self.0.settle(id, spent, policies).await
    }

    fn has_leases(&self) -> bool {
        true
    }
}
