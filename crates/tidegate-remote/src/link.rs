//! [`Link`]: the connection to the root, which a task keeps open, and the bounds on the requests under way.

use std::{
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use redis::{Cmd, Value};
use rustls::ClientConfig;
use tidegate::Policy;
use tokio::{
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::{sleep, timeout},
};

use crate::{connection::Connection, error::Error, health::Health, url::RootUrl};

/// The pauses between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long a problem of a policy lasts that is not verified and that nobody requests.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// How often policies are verified while the root lacks one, or decides under one by another limit.
const VERIFY_EVERY: Duration = Duration::from_secs(5);

/// The settings of a link.
#[derive(Debug)]
pub(crate) struct LinkSettings {
    pub(crate) root: RootUrl,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) timeout: Duration,
    pub(crate) max_requests: usize,
    /// The policies that are verified first.
    pub(crate) policies: Vec<Policy>,
}

/// The connection to the root, if there is one.
pub(crate) struct Link {
    pub(crate) settings: LinkSettings,
    pub(crate) health: Arc<Health>,
    connection: RwLock<Option<Connection>>,
    connected: watch::Sender<bool>,
    /// Whether the first attempt to connect has ended.
    attempted: watch::Sender<bool>,
    /// One permit for each request that may be under way, until it is answered or the connection is lost.
    permits: Arc<Semaphore>,
    /// One permit for each release that no caller waits for.
    releases: Arc<Semaphore>,
    /// Callers may be outside a runtime.
    runtime: Handle,
    /// The policies that are verified at each connection.
    policies: Mutex<Vec<Policy>>,
    policies_changed: Arc<Notify>,
    /// A request got no answer in time.
    late: Arc<Notify>,
}

impl Link {
    /// Starts the task that keeps the connection open, in the tokio runtime of the caller.
    pub(crate) fn start(mut settings: LinkSettings) -> Arc<Self> {
        let policies = Mutex::new(std::mem::take(&mut settings.policies));
        let link = Arc::new(Self {
            health: Arc::new(Health::new(settings.root.to_string())),
            connection: RwLock::new(None),
            connected: watch::Sender::new(false),
            attempted: watch::Sender::new(false),
            permits: Arc::new(Semaphore::new(settings.max_requests.min(Semaphore::MAX_PERMITS))),
            releases: Arc::new(Semaphore::new(settings.max_requests.min(Semaphore::MAX_PERMITS))),
            runtime: Handle::current(),
            policies,
            policies_changed: Arc::default(),
            late: Arc::default(),
            settings,
        });
        let weak = Arc::downgrade(&link);
        tokio::spawn(async move {
            while tokio::spawn(keep_connected(weak.clone())).await.is_err_and(|error| error.is_panic()) {
                tracing::error!("the task that connects to the root panicked: it is started again");
                sleep(FIRST_PAUSE).await;
            }
        });
        link
    }

    /// Waits until the root is connected.
    pub(crate) async fn ready(&self) {
        let _ = self.connected.subscribe().wait_for(|connected| *connected).await;
    }

    /// The connection. Requests at the start wait for it.
    async fn connection(&self) -> Result<Connection, Error> {
        let present = || self.connection.read().clone();
        if let Some(connection) = present() {
            return Ok(connection);
        }
        if !*self.attempted.borrow() {
            let mut attempted = self.attempted.subscribe();
            let _ = timeout(self.settings.timeout, attempted.wait_for(|attempted| *attempted)).await;
        }
        present().ok_or_else(|| self.health.outage())
    }

    /// The policies that are verified.
    pub(crate) fn policies(&self) -> Vec<Policy> {
        self.policies.lock().clone()
    }

    /// Replaces the policies that are verified, and verifies them soon.
    pub(crate) fn set_policies(&self, policies: Vec<Policy>) {
        *self.policies.lock() = policies;
        self.forget_problems(Duration::ZERO);
        self.policies_changed.notify_one();
    }

    /// Ends the problems of policies that are not verified and that nobody has requested for this time.
    fn forget_problems(&self, after: Duration) {
        let policies = self.policies.lock();
        let is_verified = |name: &str| policies.iter().any(|policy| policy.name() == Some(name));
        self.health.keep_problems(|name, unrequested| is_verified(name) || unrequested < after);
    }

    /// Carries out a release that no caller waits for. At most as many are under way as requests. One beyond them is dropped,
    /// and so is one that the root does not answer, or whose runtime has ended. Both are counted.
    pub(crate) fn release(&self, release: impl Future<Output = bool> + Send + 'static) {
        let permit = Arc::clone(&self.releases).try_acquire_owned().ok();
        let may_start = permit.is_some();
        let mut counted = DetachedRelease { health: Arc::clone(&self.health), answered: false, _permit: permit };
        if may_start {
            self.runtime.spawn(async move { counted.end(release.await) });
        }
    }

    /// Sends a request. It is never sent twice.
    pub(crate) async fn call(&self, command: Cmd) -> Result<Value, Error> {
        let connection = self.connection().await?;
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| Error::Overloaded)?;
        self.health.requests.fetch_add(1, Relaxed);
        // The request stays under way until it is answered, even if nobody waits for it any more.
        let health = Arc::clone(&self.health);
        let answers_before = health.answers();
        let answer = tokio::spawn(async move {
            let answer = send(&connection, &health, command).await;
            drop(permit);
            answer
        });
        match timeout(self.settings.timeout, answer).await {
            Ok(answer) => answer.unwrap_or(Err(Error::Lost)),
            Err(_) => {
                if self.health.answers() == answers_before {
                    self.health.begin_silence();
                }
                self.late.notify_one();
                Err(Error::Timeout)
            }
        }
    }
}

/// Sends a request, and records that the root answers.
async fn send(connection: &Connection, health: &Health, command: Cmd) -> Result<Value, Error> {
    let answer = connection.send(command).await;
    if !matches!(answer, Err(Error::Lost)) {
        health.record_answer();
    }
    answer
}

/// A release that no caller waits for. It is counted as dropped unless it is answered.
struct DetachedRelease {
    health: Arc<Health>,
    answered: bool,
    _permit: Option<OwnedSemaphorePermit>,
}

impl DetachedRelease {
    fn end(&mut self, answered: bool) {
        self.answered = answered;
    }
}

impl Drop for DetachedRelease {
    fn drop(&mut self) {
        if !self.answered {
            self.health.releases_dropped.fetch_add(1, Relaxed);
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("root", &self.settings.root).finish_non_exhaustive()
    }
}

impl Link {
    /// Asks the root for a PONG. Returns whether anything was answered within the timeout, or the connection has ended.
    async fn probe(&self, connection: &Connection) -> bool {
        let answers_before = self.health.answers();
        let answer = send(connection, &self.health, redis::cmd("PING"));
        timeout(self.settings.timeout, answer).await.is_ok() || self.health.answers() != answers_before
    }

    /// Verifies the policies and probes the root, until the connection ends or is given up. A connection is given up if
    /// nothing is answered for a timeout after a request was not answered in time.
    async fn attend(link: &Weak<Self>, ended: impl Future<Output = ()>) {
        let signals = link.upgrade().map(|link| (Arc::clone(&link.late), Arc::clone(&link.policies_changed)));
        let Some((late, policies_changed)) = signals else { return };
        let mut ended = std::pin::pin!(ended);
        loop {
            let (is_late, is_changed) = tokio::select! {
                () = &mut ended => return,
                () = late.notified() => (true, false),
                () = policies_changed.notified() => (false, true),
                () = sleep(VERIFY_EVERY) => (false, false),
            };
            // The link ends the connection when it is dropped.
            let Some(present) = link.upgrade() else { continue };
            let connection = present.connection.read().clone();
            if let Some(connection) = connection.filter(|_| is_late || present.health.is_silent())
                && !present.probe(&connection).await
            {
                present.health.begin_silence();
                connection.give_up();
                continue;
            }
            // A verification of the earlier policies may have ended after they were replaced.
            present.forget_problems(if is_changed { Duration::ZERO } else { FORGET_AFTER });
            if is_changed || present.health.has_policy_problem() {
                crate::store::verify_policies(&present).await;
            }
        }
    }
}

/// Connects again and again while the link exists.
async fn keep_connected(link: Weak<Link>) {
    let mut pause = FIRST_PAUSE;
    // Whether the last connection ended without an answer to its last requests.
    let mut was_silent = false;
    loop {
        let Some(present) = link.upgrade() else { return };
        let LinkSettings { root, tls, .. } = &present.settings;
        match Connection::open(root, tls.as_ref()).await {
            Ok((connection, ended)) => {
                present.health.connections.fetch_add(1, Relaxed);
                *present.connection.write() = Some(connection);
                present.health.set_connected(was_silent);
                present.connected.send_replace(true);
                present.attempted.send_replace(true);
                crate::store::verify_policies(&present).await;
                if present.health.is_silent() {
                    present.late.notify_one();
                }
                drop(present);
                Link::attend(&link, ended).await;
                pause = FIRST_PAUSE;
                let Some(present) = link.upgrade() else { return };
                was_silent = present.health.is_silent();
                *present.connection.write() = None;
                present.connected.send_replace(false);
                present.health.set_outage(Error::Unreachable("the connection was lost".to_owned()));
            }
            Err(error) => {
                present.health.set_outage(error);
                present.attempted.send_replace(true);
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
