//! [`ExternalStore`]: the same decisions by a real Redis, at the times of the log.
//!
//! The states have a prefix that only this run uses. The run deletes them at its end. If the run is killed, they expire.

use std::{collections::HashMap, process, time::Duration};

use futures_util::{StreamExt as _, stream};
use tidegate::{Clock, Cost, Decision, Key, Op, Policy, Timestamp};
use tidegate_redis::{Error, RedisStore, UrlError};

use super::chunk::Chunk;
use crate::logs::Request;

/// Number of clients with a request in flight.
const IN_FLIGHT: usize = 512;

/// One store for each policy, so that no policy reads the state of another.
pub(super) struct ExternalStore {
    runtime: tokio::runtime::Runtime,
    stores: Vec<RedisStore>,
}

impl ExternalStore {
    pub(super) fn connect(url: &str, policies: usize) -> Result<Self, ConnectError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = format!("tg-replay-{}-{}", process::id(), Clock::system().now().as_micros());
        let stores = runtime.block_on(async {
            let connect = |policy: usize| {
                // A replay has no deadline: a late answer is better than none.
                RedisStore::builder(url).prefix(&format!("{run}-{policy}")).timeout(Duration::from_secs(30)).connect()
            };
            let stores = (0..policies).map(connect).collect::<Result<Vec<_>, _>>()?;
            for store in &stores {
                let ready = tokio::time::timeout(Duration::from_secs(5), store.ready()).await;
                ready.map_err(|_| ConnectError::Timeout)?;
            }
            Ok::<_, ConnectError>(stores)
        })?;
        Ok(Self { runtime, stores })
    }

    /// Decides the requests of a chunk by a policy. The requests of one client are decided in order.
    pub(super) fn decide(&self, number: usize, policy: &Policy, chunk: &Chunk) -> Result<Vec<Decision>, Error> {
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
            Ok::<_, Error>(())
        })?;
        Ok(decisions.into_iter().flatten().collect())
    }

    /// Deletes the state of these clients under a policy.
    pub(super) fn delete(&self, number: usize, policy: &Policy, keys: impl Iterator<Item = Vec<u8>>) {
        let store = &self.stores[number];
        let delete = |key: Vec<u8>| async move {
            let key = Key::new(&key).expect("the parser checks keys");
            // A state that is not deleted here expires.
            let _ = store.reset_at(policy, &key, Timestamp::from_micros(0)).await;
        };
        self.runtime.block_on(stream::iter(keys.map(delete)).buffer_unordered(IN_FLIGHT).for_each(|()| async {}));
    }
}

/// Decides the requests of one client. Each decision has the index of its request.
async fn decide_client(
    store: &RedisStore,
    policy: &Policy,
    requests: Vec<(usize, Request<'_>)>,
) -> Result<Vec<(usize, Decision)>, Error> {
    let mut decisions = Vec::with_capacity(requests.len());
    for (index, Request { time_us, key, cost }) in requests {
        let key = Key::new(key).expect("the parser checks keys");
        let cost = Cost::new(cost).expect("the parser checks costs");
        let now = Timestamp::from_micros(time_us);
        decisions.push((index, store.decide_at(Op::Check, policy, &key, cost, now).await?));
    }
    Ok(decisions)
}

/// Error of connecting to the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The runtime can't be started.
    #[error("the async runtime can't be started: {0}")]
    Runtime(#[from] std::io::Error),
    /// Redis does not answer.
    #[error("redis does not answer within 5 s: is it running, and is its address right?")]
    Timeout,
}
