//! [`Context`]: the parts that all listeners of a service share.

use std::sync::Arc;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    auth::Logouts,
    config::ServerSettings,
    connections::{Certificates, UnreadResponses},
    metrics::Transport,
    service::Service,
};

/// The parts that all listeners of a service share.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) service: Arc<Service>,
    pub(crate) settings: Arc<ServerSettings>,
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// The name of the login cookie. It contains the port, because browsers send the cookies of a host to all of its ports.
    pub(crate) cookie: Arc<str>,
    /// Logins that were ended by a logout.
    pub(crate) logouts: Arc<Logouts>,
    /// Unread responses, by transport.
    pub(crate) unread: [Arc<UnreadResponses>; 3],
    /// Cancelled when the service stops: no connection is accepted, and requests that have begun are finished.
    pub(crate) stop: CancellationToken,
    /// Open connections and accept loops.
    pub(crate) connections: TaskTracker,
}

impl Context {
    pub(crate) fn new(
        service: Arc<Service>,
        settings: Arc<ServerSettings>,
        certificates: Option<Arc<Certificates>>,
        cookie: Arc<str>,
    ) -> Self {
        let bounds = settings.bounds;
        Self {
            service,
            settings,
            certificates,
            cookie,
            logouts: Arc::default(),
            unread: Transport::ALL.map(|_| UnreadResponses::new(bounds.response_memory, bounds.write_timeout)),
            stop: CancellationToken::new(),
            connections: TaskTracker::new(),
        }
    }
}
