//! [`Feed`]: the service's live events in a thread of their own, begun anew whenever they end.

use std::{
    io::Read as _,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError},
    thread,
    time::Duration,
};

use serde::de::DeserializeOwned;

use tidegate_server::dashboard::{Overview, PolicyHits, Tick};

use super::events::{Event, Events};
use crate::ask::{Place, hinted};

/// How long it waits before it tries again: twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A stream that nobody reads any more ends after this at the latest.
const LONGEST_STREAM: Duration = Duration::from_secs(600);

/// What was heard.
#[derive(Debug, Clone)]
pub(crate) enum Heard {
    Overview(Box<Overview>),
    Tick(Box<Tick>),
    Hits(Box<PolicyHits>),
    /// Something could not be told.
    Problem(String),
    /// The service does not answer; it is tried again.
    Lost(String),
    /// The service answers, and says no.
    Refused(String),
}

/// Live events; dropped, it ends.
#[derive(Debug)]
pub(crate) struct Feed {
    heard: Receiver<Heard>,
    _stop: Sender<()>,
}

impl Feed {
    /// Of the service, and of one of its policies if it is named.
    pub(crate) fn start(place: &Place, policy: Option<&str>) -> std::io::Result<Self> {
        let mut path = "/v1/live".to_owned();
        if let Some(policy) = policy {
            let query = form_urlencoded::Serializer::new(String::new()).append_pair("policy", policy).finish();
            path = format!("{path}?{query}");
        }
        // A reader who does not keep up holds the stream back, not the memory.
        let (tell, heard) = mpsc::sync_channel(64);
        let (stop, stopped) = mpsc::channel();
        let place = place.clone();
        thread::Builder::new().name("live".to_owned()).spawn(move || follow(&place, &path, &tell, &stopped))?;
        Ok(Self { heard, _stop: stop })
    }

    /// What was heard since the last time.
    pub(crate) fn heard(&self) -> impl Iterator<Item = Heard> {
        self.heard.try_iter()
    }
}

/// An error of the service.
#[derive(Debug, serde::Deserialize)]
struct Problem {
    error: String,
    field: Option<String>,
}

/// Nobody listens any more.
struct Gone;

fn follow(place: &Place, path: &str, tell: &SyncSender<Heard>, stopped: &Receiver<()>) {
    let mut wait = FIRST_WAIT;
    loop {
        let Ok((heard_any, ended)) = listen(place, path, tell, stopped) else { return };
        if tell.send(ended).is_err() {
            return;
        }
        wait = if heard_any { FIRST_WAIT } else { (wait * 2).min(LONGEST_WAIT) };
        if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// One stream to its end: whether it told anything, and why it ended.
fn listen(place: &Place, path: &str, tell: &SyncSender<Heard>, stopped: &Receiver<()>) -> Result<(bool, Heard), Gone> {
    let lost = |why: String| Heard::Lost(why);
    let mut response = match place.get(path, LONGEST_STREAM) {
        Ok(response) => response,
        Err(error) => return Ok((false, lost(error.to_string()))),
    };
    let status = response.status().as_u16();
    if status != 200 {
        let told = response.body_mut().read_json::<Problem>();
        let why = told.map_or_else(
            |_| format!("it answers {status}, but not as tidegate does"),
            |told| hinted(told.field.as_deref(), &told.error),
        );
        return Ok((false, if (400..500).contains(&status) { Heard::Refused(why) } else { lost(why) }));
    }
    let (mut events, mut chunk, mut heard_any) = (Events::new(), vec![0; 64 << 10], false);
    let mut body = response.into_body().into_reader();
    loop {
        let count = match body.read(&mut chunk) {
            Ok(0) => return Ok((heard_any, lost("the service ended the stream".to_owned()))),
            Ok(count) => count,
            Err(error) => return Ok((heard_any, lost(error.to_string()))),
        };
        let Ok(ended) = events.push(&chunk[..count]) else {
            return Ok((heard_any, lost("it tells more than a tidegate would".to_owned())));
        };
        if stopped.try_recv() != Err(TryRecvError::Empty) {
            return Err(Gone);
        }
        for event in ended {
            match understood(&event) {
                Ok(Some(heard)) => tell.send(heard).map_err(|_| Gone)?,
                Ok(None) => {}
                Err(error) => return Ok((heard_any, lost(format!("what it tells can't be read: {error}")))),
            }
            heard_any = true;
        }
    }
}

/// What an event tells; nothing if it is of a kind that newer services may have.
fn understood(event: &Event) -> serde_json::Result<Option<Heard>> {
    fn read<T: DeserializeOwned>(data: &str) -> serde_json::Result<Box<T>> {
        serde_json::from_str(data).map(Box::new)
    }
    Ok(Some(match event.name.as_str() {
        "overview" => Heard::Overview(read(&event.data)?),
        "tick" => Heard::Tick(read(&event.data)?),
        "hits" => Heard::Hits(read(&event.data)?),
        "problem" => Heard::Problem(read::<Problem>(&event.data)?.error),
        _ => return Ok(None),
    }))
}
