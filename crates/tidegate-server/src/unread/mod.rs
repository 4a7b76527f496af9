//! [`UnreadResponses`]: the memory of responses that peers have not read yet. It is bounded for each connection and for
//! each listener. A connection that has unread responses and reads nothing is closed.
//!
//! A [`Charge`] lives exactly as long as the bytes that it counts: it is part of the buffer that is handed to the
//! protocol, so bytes that wait for a flow-control window are counted, too.

mod watch;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Bytes of large responses that one connection may leave unread. A single response may be larger.
const PER_CONNECTION: usize = 512 << 10;

/// A response of at most this many bytes is never refused because of memory. Decisions are that small.
pub(crate) const SMALL: usize = 1 << 10;

/// Memory of an unread response in addition to its body: its task, its stream and its headers.
const OVERHEAD: usize = 4 << 10;

/// Unread responses that every connection may have even when the listener is at its bound.
const ALWAYS: usize = 4;

/// If more than this fraction (1/2) of the bound is held, connections that do not read are closed sooner.
const PRESSURE: usize = 2;

/// How long a connection may read nothing then, unless the write time-out is shorter.
const UNDER_PRESSURE: Duration = Duration::from_secs(1);

/// The unread responses of all connections of one listener.
#[derive(Debug)]
pub(crate) struct UnreadResponses {
    max: usize,
    patience: Duration,
    held: AtomicUsize,
    next: AtomicU64,
    readers: Mutex<HashMap<u64, Arc<Reader>>>,
}

/// The peer of a connection, which has to read the responses.
#[derive(Debug)]
pub(crate) struct Reader {
    id: u64,
    all: Arc<UnreadResponses>,
    /// Bytes of the bodies that are unread.
    held: AtomicUsize,
    responses: AtomicUsize,
    /// Increases whenever the peer has read something.
    progress: AtomicU64,
    /// The value of `progress` at the last check, and the number of checks in a row that found it unchanged.
    seen: AtomicU64,
    stalled: AtomicU32,
    closed: CancellationToken,
}

/// A reader that is watched until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched(Arc<Reader>);

/// Memory of one unread response.
#[derive(Debug)]
pub(crate) struct Charge {
    reader: Arc<Reader>,
    bytes: usize,
}

/// Memory that is counted only for the listener.
#[derive(Debug)]
pub(crate) struct Hold<'u>(&'u UnreadResponses, usize);

impl UnreadResponses {
    /// Allows at most `max` bytes. A connection may read nothing for at most `patience`.
    pub(crate) fn new(max: usize, patience: Duration) -> Arc<Self> {
        let (held, next) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Self { max, patience, held, next, readers: Mutex::default() })
    }

    /// Starts to watch a connection.
    pub(crate) fn reader(self: &Arc<Self>) -> Watched {
        let reader = Arc::new(Reader {
            id: self.next.fetch_add(1, Relaxed),
            all: Arc::clone(self),
            held: AtomicUsize::new(0),
            responses: AtomicUsize::new(0),
            progress: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            stalled: AtomicU32::new(0),
            closed: CancellationToken::new(),
        });
        self.readers.lock().insert(reader.id, Arc::clone(&reader));
        Watched(reader)
    }

    /// Counts bytes that wait to be written; `None` if they would exceed the bound.
    pub(crate) fn hold(&self, bytes: usize) -> Option<Hold<'_>> {
        if self.held.load(Relaxed) + bytes > self.max {
            return None;
        }
        self.held.fetch_add(bytes, Relaxed);
        Some(Hold(self, bytes))
    }

    /// How long a connection may currently read nothing.
    pub(crate) fn patience(&self) -> Duration {
        let is_short = self.held.load(Relaxed) > self.max / PRESSURE;
        if is_short { self.patience.min(UNDER_PRESSURE) } else { self.patience }
    }
}

impl Watched {
    pub(crate) fn reader(&self) -> &Arc<Reader> {
        &self.0
    }

    /// Waits until the connection has read nothing for too long.
    pub(crate) async fn stalls(&self) {
        self.0.closed.cancelled().await;
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.all.readers.lock().remove(&self.0.id);
    }
}

impl Reader {
    /// Whether another request may begin, whose response adds to the unread ones.
    #[inline]
    pub(crate) fn may_begin(&self) -> bool {
        self.all.held.load(Relaxed) <= self.all.max || self.responses.load(Relaxed) < ALWAYS
    }

    /// Counts a response with a body of `bytes`; `None` if it would exceed a bound.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        if bytes > SMALL {
            let held = self.held.load(Relaxed);
            if held > 0 && held + bytes > PER_CONNECTION || self.all.held.load(Relaxed) + bytes > self.all.max {
                return None;
            }
        }
        Some(self.count(bytes))
    }

    /// Counts a part of a streamed response.
    pub(crate) fn count(self: &Arc<Self>, bytes: usize) -> Charge {
        self.held.fetch_add(bytes, Relaxed);
        self.responses.fetch_add(1, Relaxed);
        self.all.held.fetch_add(bytes + OVERHEAD, Relaxed);
        Charge { reader: Arc::clone(self), bytes }
    }
}

impl Charge {
    /// Records that a part of the response was read.
    pub(crate) fn progressed(&self) {
        self.reader.progress.fetch_add(1, Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.reader.held.fetch_sub(self.bytes, Relaxed);
        self.reader.responses.fetch_sub(1, Relaxed);
        self.reader.all.held.fetch_sub(self.bytes + OVERHEAD, Relaxed);
        self.progressed();
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(self.1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ALWAYS, OVERHEAD, PER_CONNECTION, SMALL, UNDER_PRESSURE, UnreadResponses};

    #[test]
    fn a_connection_holds_one_response_of_any_size_or_several_up_to_its_bound() {
        let all = UnreadResponses::new(64 << 20, Duration::from_secs(30));
        let watched = all.reader();
        let reader = watched.reader();
        let large = reader.charge(2 * PER_CONNECTION).expect("the first may be large");
        assert!(reader.charge(SMALL + 1).is_none(), "not beside another");
        assert!(reader.charge(SMALL).is_some(), "small ones always");
        drop(large);
        let several: Vec<_> = (0..4).map(|_| reader.charge(PER_CONNECTION / 4).expect("they fit")).collect();
        assert!(reader.charge(SMALL + 1).is_none());
        assert!(all.reader().reader().charge(PER_CONNECTION).is_some(), "another connection has its own bound");
        drop(several);
        assert_eq!(all.held.load(super::Relaxed), 0, "everything is given back");
    }

    #[test]
    fn a_full_listener_takes_a_few_small_responses_of_each_connection() {
        let all = UnreadResponses::new(1 << 20, Duration::from_secs(30));
        assert_eq!(all.patience(), Duration::from_secs(30));
        let full = all.hold(1 << 20).expect("it fits");
        assert!(all.hold(1).is_none());
        assert_eq!(all.patience(), UNDER_PRESSURE);
        let watched = all.reader();
        let reader = watched.reader();
        assert!(reader.charge(SMALL + 1).is_none());
        let mut held = Vec::new();
        for _ in 0..ALWAYS {
            held.push(reader.charge(SMALL).expect("small ones always"));
            assert_eq!(reader.may_begin(), held.len() < ALWAYS);
        }
        assert_eq!(all.held.load(super::Relaxed), (1 << 20) + ALWAYS * (SMALL + OVERHEAD));
        drop(full);
        assert!(reader.may_begin());
    }
}
