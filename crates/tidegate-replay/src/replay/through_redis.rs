//! [`ThroughRedis`]: the same decisions from a real Redis, at the times of the log.
//!
//! States are under a prefix that only this run has, and are forgotten at its end; what a run that was killed leaves behind expires.

use std::{collections::HashMap, process, time::Duration};

use futures_util::{StreamExt as _, stream};
use tidegate::{Clock, Cost, Decision, Key, Op, Policy, Store as _, StoreError, Timestamp};
use tidegate_redis::{RedisStore, UrlError};

use super::chunk::Chunk;
use crate::logs::Request;

/// How many clients' requests are under way at a time.
const UNDER_WAY: usize = 512;

/// One store for each policy, so that none finds what another has written.
pub(super) struct ThroughRedis {
    runtime: tokio::runtime::Runtime,
    stores: Vec<RedisStore>,
}

impl ThroughRedis {
    /// Connects to Redis.
    pub(super) fn connect(url: &str, policies: usize) -> Result<Self, ConnectError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = format!("tg-replay-{}-{}", process::id(), Clock::system().now().as_micros());
        let stores = runtime.block_on(async {
            let connect = |policy: usize| {
                // Nobody waits for one of these: it is better to be late than to be without an answer.
                RedisStore::builder(url).prefix(&format!("{run}-{policy}")).timeout(Duration::from_secs(30)).connect()
            };
            let stores = (0..policies).map(connect).collect::<Result<Vec<_>, _>>()?;
            for store in &stores {
                let ready = tokio::time::timeout(Duration::from_secs(5), store.ready()).await;
                ready.map_err(|_| ConnectError::Silent)?;
            }
            Ok::<_, ConnectError>(stores)
        })?;
        Ok(Self { runtime, stores })
    }

    /// Decides the requests of a chunk by a policy. Those of one client are decided one after the other, in their order.
    pub(super) fn decide(&self, number: usize, policy: &Policy, chunk: &Chunk) -> Result<Vec<Decision>, StoreError> {
        let store = &self.stores[number];
        let mut by_client: HashMap<&[u8], Vec<(usize, Request<'_>)>> = HashMap::new();
        for (at, (request, _)) in chunk.iter().enumerate() {
            by_client.entry(request.key).or_default().push((at, request));
        }
        let mut decisions = vec![None; chunk.len()];
        self.runtime.block_on(async {
            let mut answers = stream::iter(by_client.into_values().map(|requests| one_client(store, policy, requests)))
                .buffer_unordered(UNDER_WAY);
            while let Some(answer) = answers.next().await {
                for (at, decision) in answer? {
                    decisions[at] = Some(decision);
                }
            }
            Ok::<_, StoreError>(())
        })?;
        Ok(decisions.into_iter().flatten().collect())
    }

    /// Forgets what a policy holds of these clients.
    pub(super) fn forget(&self, number: usize, policy: &Policy, keys: impl Iterator<Item = Vec<u8>>) {
        let store = &self.stores[number];
        let forget = |key: Vec<u8>| async move {
            let key = Key::new(&key).expect("it was checked");
            // What is not forgotten here expires.
            let _ = store.at(Timestamp::from_micros(0)).reset(policy, &key).await;
        };
        self.runtime.block_on(stream::iter(keys.map(forget)).buffer_unordered(UNDER_WAY).for_each(|()| async {}));
    }
}

/// Decides the requests of one client, each at its place in the chunk.
async fn one_client(
    store: &RedisStore,
    policy: &Policy,
    requests: Vec<(usize, Request<'_>)>,
) -> Result<Vec<(usize, Decision)>, StoreError> {
    let mut decided = Vec::with_capacity(requests.len());
    for (at, Request { time_us, key, cost }) in requests {
        let (key, cost) = (Key::new(key).expect("it was checked"), Cost::new(cost).expect("it was checked"));
        let now = Timestamp::from_micros(time_us);
        decided.push((at, store.at(now).decide(Op::Check, policy, &key, cost).await?));
    }
    Ok(decided)
}

/// Why there is no Redis to replay through.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL can't be read.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The system gives no runtime.
    #[error("no runtime can be had: {0}")]
    Runtime(#[from] std::io::Error),
    /// Redis does not answer.
    #[error("redis does not answer within 5 s: is it running, and is its address right?")]
    Silent,
}
