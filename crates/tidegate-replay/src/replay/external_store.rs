//! [`ExternalStore`]: the same decisions by a store outside the replay, at the times of the input.
//!
//! The states have a prefix that only this run uses. The run deletes them at its end. If the run is killed, they expire.

use std::{collections::HashMap, fmt, process, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use tidegate::{AnyStore, Clock, Cost, Decision, Key, Limit, Op, Policy, Store as _, StoreError, Timestamp};

use super::{chunk::Chunk, policy_replay::hold};
use crate::logs::Request;

/// Number of clients with a request in flight.
const IN_FLIGHT: usize = 512;

/// How to open the store that decides.
#[derive(Clone)]
pub struct OpenStore(Arc<OpenWithPrefix>);

type OpenWithPrefix = dyn Fn(&str) -> Result<AnyStore, String> + Send + Sync;

impl OpenStore {
    /// `open` opens a store whose states have the given prefix. It is called inside a tokio runtime. The store must be
    /// able to decide at a given time ([`Store::at_time`](tidegate::Store::at_time)).
    pub fn new(open: impl Fn(&str) -> Result<AnyStore, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }
}

impl fmt::Debug for OpenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenStore").finish_non_exhaustive()
    }
}

/// One store for each policy, so that no policy reads the state of another.
pub(super) struct ExternalStore {
    runtime: tokio::runtime::Runtime,
    stores: Vec<AnyStore>,
}

impl ExternalStore {
    pub(super) fn connect(open: &OpenStore, policies: usize) -> Result<Self, ConnectError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = format!("tg-replay-{}-{}", process::id(), Clock::system().now().as_micros());
        let stores = runtime.block_on(async {
            let open = |policy: usize| (open.0)(&format!("{run}-{policy}")).map_err(ConnectError::Open);
            let stores = (0..policies).map(open).collect::<Result<Vec<_>, _>>()?;
            for store in &stores {
                let Some(store) = store.at_time(Timestamp::from_micros(0)) else {
                    return Err(ConnectError::NoTime { kind: store.report().kind });
                };
                tokio::time::timeout(Duration::from_secs(5), first_answer(&store))
                    .await
                    .map_err(|_| ConnectError::Timeout)?;
            }
            Ok(stores)
        })?;
        Ok(Self { runtime, stores })
    }

    /// Decides the requests of a chunk by a policy. The requests of one client are decided in order.
    pub(super) fn decide(&self, number: usize, policy: &Policy, chunk: &Chunk) -> Result<Vec<Decision>, StoreError> {
        let store = &self.stores[number];
        let mut by_client: HashMap<u32, Vec<(usize, Request<'_>)>> = HashMap::new();
        for (index, (request, client)) in chunk.iter().enumerate() {
            by_client.entry(client).or_default().push((index, request));
        }
        let mut decisions = vec![None; chunk.len()];
        self.runtime.block_on(async {
            let clients = by_client.into_values().map(|requests| decide_client(store, policy, requests));
            let mut answers = stream::iter(clients).buffer_unordered(IN_FLIGHT);
            while let Some(answer) = answers.next().await {
                for (index, decision) in answer? {
                    decisions[index] = Some(decision);
                }
            }
            Ok::<_, StoreError>(())
        })?;
        Ok(decisions.into_iter().flatten().collect())
    }

    /// Deletes the state of these clients under a policy.
    pub(super) fn delete<'a>(&self, number: usize, policy: &Policy, keys: impl Iterator<Item = &'a [u8]>) {
        let store = &self.stores[number];
        let delete = |key: &'a [u8]| async move {
            let key = Key::new(key).expect("the parser checks keys");
            // A state that is not deleted here expires.
            if let Ok(store) = at(store, 0) {
                let _ = store.reset(policy, &key).await;
            }
        };
        self.runtime.block_on(stream::iter(keys.map(delete)).buffer_unordered(IN_FLIGHT).for_each(|()| async {}));
    }
}

/// Waits until a store answers.
async fn first_answer(store: &AnyStore) {
    let limit = Limit::new(1, Duration::from_secs(1)).expect("a limit in range");
    let (policy, key) =
        (Policy::new("ready", [limit]).expect("a valid policy"), Key::new("ready").expect("a valid key"));
    while store.inspect(&policy, &key).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the store at a time of the input.
fn at(store: &AnyStore, time_us: u64) -> Result<AnyStore, StoreError> {
    store.at_time(Timestamp::from_micros(time_us)).ok_or(StoreError::Unsupported { operation: "at_time" })
}

/// Decides the requests of one client. Each decision has the index of its request.
async fn decide_client(
    store: &AnyStore,
    policy: &Policy,
    requests: Vec<(usize, Request<'_>)>,
) -> Result<Vec<(usize, Decision)>, StoreError> {
    let mut decisions = Vec::with_capacity(requests.len());
    for (index, request) in requests {
        let key = Key::new(request.key).expect("the parser checks keys");
        let cost = Cost::new(request.cost).expect("the parser checks costs");
        let store = at(store, request.time_us)?;
        let decision = if policy.has_in_flight_limit() {
            store.reserve(policy, &key, cost, hold(&request)).await?.decision
        } else {
            store.decide(Op::Check, policy, &key, cost).await?
        };
        decisions.push((index, decision));
    }
    Ok(decisions)
}

/// Error of connecting to the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The store can't be opened.
    #[error("{0}")]
    Open(String),
    /// The store can't decide at the times of the input.
    #[error("the store `{kind}` can't decide at a given time: replay in memory or through redis")]
    NoTime {
        /// The kind of store.
        kind: &'static str,
    },
    /// The runtime can't be started.
    #[error("the async runtime can't be started: {0}")]
    Runtime(#[from] std::io::Error),
    /// The store does not answer.
    #[error("the store does not answer within 5 s: is it running, and is its address right?")]
    Timeout,
}
