//! [`LiveStream`]: the service's live events in a thread of their own, reconnected when they end.

use std::{
    io::Read as _,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError},
    thread,
    time::Duration,
};

use serde::de::DeserializeOwned;

use tidegate_server::dashboard::{Overview, PolicyHits, Tick};

use super::events::{Event, Events};
use crate::client::{Endpoint, hinted, with_query};

/// Wait before a new attempt; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Maximum duration of one stream.
const LONGEST_STREAM: Duration = Duration::from_secs(600);

/// An update from the service.
#[derive(Debug, Clone)]
pub(crate) enum LiveUpdate {
    Overview(Box<Overview>),
    Tick(Box<Tick>),
    Hits(Box<PolicyHits>),
    /// An error about the policy that is shown.
    Problem(String),
    /// The service does not answer. The stream reconnects.
    Lost(String),
    /// The service refuses the stream, or can't be reached with these arguments.
    Refused(String),
}

/// Live events. Dropping this ends them.
#[derive(Debug)]
pub(crate) struct LiveStream {
    updates: Receiver<LiveUpdate>,
    _stop: Sender<()>,
}

impl LiveStream {
    /// Starts the events of the service, and of one policy if it is given.
    pub(crate) fn start(endpoint: &Endpoint, policy: Option<&str>) -> std::io::Result<Self> {
        let path = with_query("/v1/live", policy.map(|policy| ("policy", policy)));
        // A slow reader delays the stream instead of using memory.
        let (sender, updates) = mpsc::sync_channel(64);
        let (stop, stopped) = mpsc::channel();
        let endpoint = endpoint.clone();
        thread::Builder::new().name("live".to_owned()).spawn(move || follow(&endpoint, &path, &sender, &stopped))?;
        Ok(Self { updates, _stop: stop })
    }

    /// Returns the updates since the last call.
    pub(crate) fn updates(&self) -> impl Iterator<Item = LiveUpdate> {
        self.updates.try_iter()
    }
}

/// An error of the service.
#[derive(Debug, serde::Deserialize)]
struct Problem {
    error: String,
    field: Option<String>,
}

fn follow(endpoint: &Endpoint, path: &str, updates: &SyncSender<LiveUpdate>, stopped: &Receiver<()>) {
    let mut wait = FIRST_WAIT;
    loop {
        let Some((is_received, ended)) = listen(endpoint, path, updates, stopped) else { return };
        if updates.send(ended).is_err() {
            return;
        }
        wait = if is_received { FIRST_WAIT } else { (wait * 2).min(LONGEST_WAIT) };
        if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Reads one stream to its end. Returns whether it sent anything, and why it ended. Returns `None` if nobody receives the updates.
fn listen(
    endpoint: &Endpoint,
    path: &str,
    updates: &SyncSender<LiveUpdate>,
    stopped: &Receiver<()>,
) -> Option<(bool, LiveUpdate)> {
    let lost = LiveUpdate::Lost;
    let mut response = match endpoint.get(path, Some(LONGEST_STREAM)) {
        Ok(response) => response,
        Err(failure) if failure.is_permanent => return Some((false, LiveUpdate::Refused(failure.text))),
        Err(failure) => return Some((false, lost(failure.text))),
    };
    let status = response.status().as_u16();
    if status != 200 {
        let problem = response.body_mut().read_json::<Problem>();
        let why = problem.map_or_else(
            |_| format!("it returned {status}, but not a response of Tidegate"),
            |problem| hinted(problem.field.as_deref(), &problem.error),
        );
        return Some((false, if (400..500).contains(&status) { LiveUpdate::Refused(why) } else { lost(why) }));
    }
    let (mut events, mut chunk, mut is_received) = (Events::new(), vec![0; 64 << 10], false);
    let mut body = response.into_body().into_reader();
    loop {
        let count = match body.read(&mut chunk) {
            Ok(0) => return Some((is_received, lost("the service ended the stream".to_owned()))),
            Ok(count) => count,
            Err(error) => return Some((is_received, lost(error.to_string()))),
        };
        let Ok(ended) = events.push(&chunk[..count]) else {
            return Some((is_received, lost("an event is too long".to_owned())));
        };
        if stopped.try_recv() != Err(TryRecvError::Empty) {
            return None;
        }
        for event in ended {
            match parse(&event) {
                Ok(Some(update)) => updates.send(update).ok()?,
                Ok(None) => {}
                Err(error) => return Some((is_received, lost(format!("an event can't be parsed: {error}")))),
            }
            is_received = true;
        }
    }
}

/// Parses an event. Returns `None` for unknown kinds, which newer services may send.
fn parse(event: &Event) -> serde_json::Result<Option<LiveUpdate>> {
    fn read<T: DeserializeOwned>(data: &str) -> serde_json::Result<Box<T>> {
        serde_json::from_str(data).map(Box::new)
    }
    Ok(Some(match event.name.as_str() {
        "overview" => LiveUpdate::Overview(read(&event.data)?),
        "tick" => LiveUpdate::Tick(read(&event.data)?),
        "hits" => LiveUpdate::Hits(read(&event.data)?),
        "problem" => LiveUpdate::Problem(read::<Problem>(&event.data)?.error),
        _ => return Ok(None),
    }))
}
