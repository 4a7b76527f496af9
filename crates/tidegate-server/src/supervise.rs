//! Supervision: a task that must stay alive is started again if it panics or ends before the service stops.

use std::{future::Future, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// How long to wait before a task is started again, so that a task that fails at once does not use all processor time.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs a task on this runtime until the service stops. `start` creates it each time that it is started.
pub(crate) async fn supervise<S, F>(name: &'static str, metrics: &Metrics, stop: &CancellationToken, mut start: S)
where
    S: FnMut() -> F,
    F: Future<Output = ()> + Send + 'static,
{
    // The counter exists from the start, so that Prometheus sees the first failure as an increase.
    let restarts = metrics.task_restarts(name);
    loop {
        let ended = tokio::spawn(start()).await;
        if stop.is_cancelled() {
            return;
        }
        restarts.inc();
        match ended {
            Ok(()) => tracing::error!(task = name, "a task ended unexpectedly and is started again"),
            Err(error) => tracing::error!(task = name, %error, "a task failed and is started again"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use tokio_util::sync::CancellationToken;

    use super::supervise;
    use crate::{
        config::{Config, SettingSources},
        metrics::Exposition,
        service::Service,
    };

    #[tokio::test]
    async fn a_task_that_panics_or_ends_is_started_again_until_the_service_stops() {
        let config = Config::parse("test", "", &SettingSources::default()).expect("nothing is wrong with it");
        let service = Service::new(config).expect("a service");
        let (stop, starts) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let start = || {
            let (stop, starts) = (stop.clone(), Arc::clone(&starts));
            async move {
                match starts.fetch_add(1, Relaxed) {
                    0 => panic!("as a test of supervision"),
                    1 => {}
                    _ => stop.cancel(),
                }
            }
        };
        supervise("test", service.metrics(), &stop, start).await;
        assert_eq!(starts.load(Relaxed), 3);
        let text = service.metrics().text(Exposition::Text);
        assert!(text.contains("tidegate_task_restarts_total{task=\"test\"} 2"), "{text}");
    }
}
