//! Tasks that must stay alive: if a task panics, that is logged, and the task is started again.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;

use crate::log;

/// How long to wait before a task that panicked is started again.
const RESTART_PAUSE: Duration = Duration::from_millis(50);

/// Runs the future that `work` creates in a task until it returns. If it panics, a new one is created.
pub(crate) fn spawn<F>(name: &'static str, work: impl Fn() -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send,
{
    tokio::spawn(async move {
        while AssertUnwindSafe(work()).catch_unwind().await.is_err() {
            log::guarded(|| tracing::error!(task = name, "a task of the redis store panicked: it is started again"));
            tokio::time::sleep(RESTART_PAUSE).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    };

    use tokio::sync::Notify;

    #[tokio::test]
    async fn a_task_that_panics_is_started_again_and_one_that_returns_is_not() {
        let (started, done) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let (count, notify) = (Arc::clone(&started), Arc::clone(&done));
        super::spawn("test", move || {
            let (count, notify) = (Arc::clone(&count), Arc::clone(&notify));
            async move {
                assert!(count.fetch_add(1, Relaxed) == 2, "the first two times");
                notify.notify_one();
            }
        });
        done.notified().await;
        tokio::task::yield_now().await;
        assert_eq!(started.load(Relaxed), 3);
    }
}
