//! [`RemoteStoreBuilder`]: the address of the root and the settings of a store.

use std::{fmt, time::Duration};

use tidegate::Policy;

use crate::{
    error::ConnectError,
    link::{Link, LinkSettings},
    store::RemoteStore,
    stream::tls_config,
    url::RootUrl,
};

/// Sets up a [`RemoteStore`].
pub struct RemoteStoreBuilder {
    url: String,
    timeout: Duration,
    max_requests: usize,
    tls_ca: Option<Vec<u8>>,
    policies: Vec<Policy>,
}

impl RemoteStoreBuilder {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            timeout: RemoteStore::DEFAULT_TIMEOUT,
            max_requests: 1024,
            tls_ca: None,
            policies: Vec::new(),
        }
    }

    /// The time after which an operation fails if the root has not answered; one second by default. It must be more than
    /// the round trip.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The maximum number of requests under way; 1,024 by default. A request beyond it is not sent.
    #[must_use]
    pub fn max_requests(mut self, requests: usize) -> Self {
        self.max_requests = requests.max(1);
        self
    }

    /// The trusted certificates, in PEM, for `tidegates://`. By default, those that this machine trusts.
    #[must_use]
    pub fn tls_ca(mut self, pem: Vec<u8>) -> Self {
        self.tls_ca = Some(pem);
        self
    }

    /// The policies that are asked for. At each connection, the store asks the root about them. It reports those that the root
    /// does not have, and those for which a limit decides there that is not in the policy here.
    /// [`RemoteStore::set_policies`] replaces them.
    #[must_use]
    pub fn policies(mut self, policies: impl IntoIterator<Item = Policy>) -> Self {
        self.policies = policies.into_iter().collect();
        self
    }

    /// The store, which connects in the background in the tokio runtime of the caller.
    ///
    /// # Errors
    /// If the URL is wrong, or the certificates can't be used. A root that does not answer is no error.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connect(self) -> Result<RemoteStore, ConnectError> {
        let root = RootUrl::parse(&self.url)?;
        let tls = if root.tls { Some(tls_config(self.tls_ca.as_deref())?) } else { None };
        let Self { timeout, max_requests, policies, .. } = self;
        Ok(RemoteStore::new(Link::start(LinkSettings { root, tls, timeout, max_requests, policies })))
    }
}

/// Without the URL, which may have a token.
impl fmt::Debug for RemoteStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = RootUrl::parse(&self.url).map(|root| root.to_string());
        let Self { timeout, max_requests, .. } = self;
        let mut text = f.debug_struct("RemoteStoreBuilder");
        text.field("root", &root).field("timeout", timeout).field("max_requests", max_requests).finish_non_exhaustive()
    }
}
