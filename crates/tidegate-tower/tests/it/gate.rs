//! [`Gate`]: a page that responds when the test says so.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use axum::{Router, routing::any};
use tokio::sync::{Notify, Semaphore};

/// A page that waits until it may respond, and the number of requests that wait.
pub(crate) struct Gate {
    waiting: AtomicUsize,
    most: AtomicUsize,
    arrived: Notify,
    permits: Semaphore,
}

impl Gate {
    pub(crate) fn closed() -> Arc<Self> {
        Arc::new(Self {
            waiting: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            arrived: Notify::new(),
            permits: Semaphore::new(0),
        })
    }

    pub(crate) fn router(self: &Arc<Self>) -> Router {
        let gate = Arc::clone(self);
        let answer = move || {
            let gate = Arc::clone(&gate);
            async move {
                let now = gate.waiting.fetch_add(1, SeqCst) + 1;
                gate.most.fetch_max(now, SeqCst);
                gate.arrived.notify_one();
                gate.permits.acquire().await.expect("it is never closed").forget();
                gate.waiting.fetch_sub(1, SeqCst);
                "done"
            }
        };
        Router::new().route("/", any(answer))
    }

    pub(crate) async fn wait_for(&self, requests: usize) {
        while self.waiting.load(SeqCst) < requests {
            self.arrived.notified().await;
        }
    }

    /// Lets this number of requests respond.
    pub(crate) fn open(&self, requests: usize) {
        self.permits.add_permits(requests);
    }

    /// The largest number of requests that waited at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(SeqCst)
    }
}
