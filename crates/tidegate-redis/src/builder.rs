//! [`RedisStoreBuilder`]: the address of Redis and the settings of a store.

use std::{fmt, time::Duration};

use redis::{ClientTlsConfig, TlsCertificates};
use tidegate::AtCapacity;

use crate::{
    replicas::Replicas,
    settings::Settings,
    store::RedisStore,
    target::{Target, UrlError},
};

/// Sets up a [`RedisStore`].
pub struct RedisStoreBuilder {
    url: String,
    settings: Settings,
    certificates: Option<TlsCertificates>,
}

impl RedisStoreBuilder {
    pub(crate) fn new(url: &str) -> Self {
        Self { url: url.to_owned(), settings: Settings::default(), certificates: None }
    }

    /// The prefix of all keys; `tg` by default. Stores that share limits have the same prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.settings.prefix);
        self
    }

    /// The time after which the policy's failure choice decides if Redis has not answered; 15 ms by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// Maximum duration of opening a connection; 500 ms by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// The number of unanswered requests in a row after which the breaker opens, so that the server gets no requests; 5 by
    /// default. The server must also have been silent for three timeouts, so that one stall is not an outage. The breaker
    /// also opens if most answers arrive later than the [timeout](Self::timeout). It closes when the server answers well
    /// within the timeout again.
    #[must_use]
    pub fn breaker_after(mut self, failures: u32) -> Self {
        self.settings.breaker_after = failures.max(1);
        self
    }

    /// The interval at which a server that does not answer is probed; 200 ms by default.
    #[must_use]
    pub fn probe_interval(mut self, interval: Duration) -> Self {
        self.settings.probe_interval = interval;
        self
    }

    /// Maximum number of requests in one call of the script, 1 to 1024; 128 by default.
    #[must_use]
    pub fn batch(mut self, requests: usize) -> Self {
        self.settings.batch = requests.clamp(1, 1024);
        self
    }

    /// Maximum number of requests that wait for one server; 4,096 by default. A request beyond it is shed: see
    /// [`Error::Overloaded`](crate::Error::Overloaded).
    #[must_use]
    pub fn queue(mut self, requests: usize) -> Self {
        self.settings.queue = requests.max(1);
        self
    }

    /// Maximum number of active overrides of one policy; 10,000 by default.
    #[must_use]
    pub fn max_overrides(mut self, max_overrides: usize) -> Self {
        self.settings.max_overrides = max_overrides;
        self
    }

    /// Answers a decision that charged only when `replicas` replicas have the charge, or after `at_most`. By default the
    /// store waits for no replica. The decision is the same in both cases. Decisions that were not confirmed are counted in
    /// [`unreplicated`](crate::Stats::unreplicated). This reduces the charges that a failover loses, but does not prevent
    /// the loss: a replica that has confirmed nothing may still become the master.
    ///
    /// The store sends `WAIT` after each call of the script that may write. Then only one call at a time is in progress on a
    /// server. It takes a round trip to the replicas or, if they hang, `at_most`: no more than a third of the
    /// [timeout](Self::timeout), so that decisions are still in time. It is counted in whole milliseconds, at least one.
    #[must_use]
    pub fn wait_for_replicas(mut self, replicas: u32, at_most: Duration) -> Self {
        self.settings.replicas = (replicas > 0).then_some(Replicas { count: replicas, at_most });
        self
    }

    /// Maximum number of keys in the database of each server; no maximum by default. At the bound no new keys are
    /// created, and [`at_capacity`](Self::at_capacity) decides on requests for new keys. Existing keys are decided as
    /// usual.
    ///
    /// All keys of the database are counted, so give Tidegate a database of its own. Limits supplied by callers create no
    /// new keys beyond half of the bound. The store reads the number of keys four times a
    /// second, and counts the keys that it creates in between. So the bound can be exceeded only by the requests in progress
    /// (384) and by the keys that other stores create within a quarter of a second.
    ///
    /// In any case no new keys are created while Redis uses more than 95 % of its `maxmemory`, if it does not evict
    /// keys.
    #[must_use]
    pub fn max_keys(mut self, keys: u64) -> Self {
        self.settings.max_keys = Some(keys);
        self
    }

    /// How a request for a new key is decided while there is no room for the key; [`AtCapacity::Shared`] by default: each
    /// policy has 64 overflow keys, and the hash of a new key selects the one that decides. Limits supplied by callers have
    /// no overflow keys, and their new keys are denied. In a cluster, a decision over keys in several slots is denied if one of them is new.
    #[must_use]
    pub fn at_capacity(mut self, choice: AtCapacity) -> Self {
        self.settings.at_capacity = choice;
        self
    }

    /// Sends nothing to a server except requests, so that a test can count bytes.
    #[doc(hidden)]
    #[must_use]
    pub fn without_health_checks(mut self) -> Self {
        self.settings.checks_health = false;
        self
    }

    /// The number of entries in a page of a log: a small number lets a test create and delete pages. The states then have
    /// a prefix of their own.
    #[doc(hidden)]
    #[must_use]
    pub fn page(mut self, entries: usize) -> Self {
        self.settings.page = Some(entries);
        self.settings.prefix = format!("{}-page-{entries}", self.settings.prefix);
        self
    }

    /// The certificate authority that signs the servers' certificates, in PEM; those of the system by default. For `rediss://`.
    #[must_use]
    pub fn tls_ca(mut self, pem: Vec<u8>) -> Self {
        self.certificates().root_cert = Some(pem);
        self
    }

    /// A certificate and key, in PEM, for servers that ask for one. For `rediss://`.
    #[must_use]
    pub fn tls_client(mut self, certificate: Vec<u8>, key: Vec<u8>) -> Self {
        self.certificates().client_tls = Some(ClientTlsConfig { client_cert: certificate, client_key: key });
        self
    }

    fn certificates(&mut self) -> &mut TlsCertificates {
        self.certificates.get_or_insert(TlsCertificates { client_tls: None, root_cert: None })
    }

    /// Creates the store and returns at once. The store connects in the background: [`ready`](RedisStore::ready) waits for
    /// that.
    ///
    /// # Errors
    /// If the URL or the certificates can't be read.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connect(self) -> Result<RedisStore, UrlError> {
        let (target, login) = Target::parse(&self.url, self.certificates)?;
        Ok(RedisStore::start(target, login, self.settings))
    }
}

/// Without the URL, which may have a password.
impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = Target::parse(&self.url, None).map(|(target, _)| target);
        let mut text = f.debug_struct("RedisStoreBuilder");
        text.field("target", &target).field("settings", &self.settings).finish_non_exhaustive()
    }
}
