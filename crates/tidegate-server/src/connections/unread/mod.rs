//! [`UnreadResponses`]: bounds the memory of requests in progress and of responses that peers have not read yet, for each
//! connection and for each listener. A connection that does not read its responses for too long is closed.
//!
//! A request makes a [`Reservation`] when it begins, so that concurrent requests can't exceed the bound together. A [`MemoryCharge`]
//! keeps the reservation exactly as long as the bytes exist: it is part of the buffer that is handed to the protocol, so bytes
//! that wait for a flow-control window are counted, too.

mod ages;
mod watch;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use self::ages::Ages;

/// Maximum bytes of large unread responses on one connection. A single response may be larger.
const PER_CONNECTION: usize = 512 << 10;

/// The service never refuses a response of at most this many bytes because of memory. The response to one decision is
/// smaller.
pub(crate) const SMALL: usize = 1 << 10;

/// Memory of an unread response in addition to its body: its task, its stream and its headers.
const OVERHEAD: usize = 4 << 10;

/// Bytes that a request reserves when it begins.
const RESERVED: usize = OVERHEAD + SMALL;

/// Memory that every connection may hold even when the listener is at its bound.
const ALWAYS: usize = 64 << 10;

/// If more than this fraction (1/2) of the bound is used, connections that do not read are closed sooner.
const PRESSURE: usize = 2;

/// How long a response may stay unread then, unless the write timeout is shorter.
const UNDER_PRESSURE: Duration = Duration::from_secs(1);

/// The unread responses of all connections of one listener.
#[derive(Debug)]
pub(crate) struct UnreadResponses {
    max: usize,
    timeout: Duration,
    held: AtomicUsize,
    /// Number of checks of the connections so far: the clock by which responses age.
    checks: AtomicU64,
    /// The open connections, and some that have ended since the last check.
    readers: Mutex<Vec<Weak<ResponseReader>>>,
}

/// The peer of a connection, which has to read the responses.
#[derive(Debug)]
pub(crate) struct ResponseReader {
    all: Arc<UnreadResponses>,
    /// All bytes of this connection.
    held: AtomicUsize,
    /// The bytes among them of large bodies and of streamed parts.
    bodies: AtomicUsize,
    /// Responses that the peer has not read.
    unread: Mutex<Ages>,
    /// Requests that have not arrived completely.
    arriving: Mutex<Ages>,
    closed: CancellationToken,
}

/// Memory for the response of one request.
#[derive(Debug)]
pub(crate) struct Reservation {
    reader: Arc<ResponseReader>,
    held: AtomicUsize,
    /// The bytes among them of a large body.
    body: AtomicUsize,
}

/// An unread response, or a part of one.
#[derive(Debug)]
pub(crate) struct MemoryCharge {
    reservation: Arc<Reservation>,
    /// Bytes beyond the reservation.
    bytes: usize,
    /// The check after which it began, or after which a part of it was read.
    since: AtomicU64,
}

/// A request that has not arrived completely. It is dropped on arrival.
#[derive(Debug)]
pub(crate) struct ArrivingRequest {
    reader: Arc<ResponseReader>,
    since: u64,
}

impl UnreadResponses {
    /// Permits at most `max` bytes. A response may stay unread for `timeout`.
    pub(crate) fn new(max: usize, timeout: Duration) -> Arc<Self> {
        let (held, checks) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Self { max, timeout, held, checks, readers: Mutex::default() })
    }

    /// Registers a connection. It is checked until the reader is dropped.
    pub(crate) fn reader(self: &Arc<Self>) -> Arc<ResponseReader> {
        let reader = Arc::new(ResponseReader {
            all: Arc::clone(self),
            held: AtomicUsize::new(0),
            bodies: AtomicUsize::new(0),
            unread: Mutex::default(),
            arriving: Mutex::default(),
            closed: CancellationToken::new(),
        });
        self.readers.lock().push(Arc::downgrade(&reader));
        reader
    }

    fn add_if_it_fits(&self, bytes: usize) -> bool {
        let fit = |held: usize| Some(held + bytes).filter(|sum| *sum <= self.max);
        self.held.fetch_update(Relaxed, Relaxed, fit).is_ok()
    }

    fn is_under_pressure(&self, held: usize) -> bool {
        held > self.max / PRESSURE
    }
}

impl ResponseReader {
    /// Reserves memory for one of several concurrent requests. Returns `None` if there is not enough.
    #[inline]
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Arc<Reservation>> {
        let own = self.held.fetch_add(RESERVED, Relaxed) + RESERVED;
        let all = self.all.held.fetch_add(RESERVED, Relaxed) + RESERVED;
        // Dropping the reservation releases it.
        let reservation = self.reservation(RESERVED);
        (all <= self.all.max || own <= ALWAYS).then_some(reservation)
    }

    /// Returns a reservation for the only request of its connection. Its response is counted only if it is large.
    #[inline]
    pub(crate) fn begin_only(self: &Arc<Self>) -> Arc<Reservation> {
        self.reservation(0)
    }

    /// Reserves memory for bytes that wait to be written. Returns `None` if there is not enough.
    pub(crate) fn begin_waiting(self: &Arc<Self>, bytes: usize) -> Option<Arc<Reservation>> {
        self.all.add_if_it_fits(bytes).then(|| {
            self.held.fetch_add(bytes, Relaxed);
            self.reservation(bytes)
        })
    }

    /// Waits until the connection has left a response unread for too long.
    pub(crate) async fn stalls(&self) {
        self.closed.cancelled().await;
    }

    /// Counts bytes of a body.
    fn add_body(&self, bytes: usize) {
        self.bodies.fetch_add(bytes, Relaxed);
        self.held.fetch_add(bytes, Relaxed);
        self.all.held.fetch_add(bytes, Relaxed);
    }

    /// Releases bytes, those of bodies among them.
    fn release(&self, bytes: usize, of_bodies: usize) {
        self.bodies.fetch_sub(of_bodies, Relaxed);
        self.held.fetch_sub(bytes, Relaxed);
        self.all.held.fetch_sub(bytes, Relaxed);
    }

    fn reservation(self: &Arc<Self>, held: usize) -> Arc<Reservation> {
        Arc::new(Reservation { reader: Arc::clone(self), held: held.into(), body: 0.into() })
    }

    /// Registers a request whose body has not arrived.
    pub(crate) fn arriving(self: &Arc<Self>) -> ArrivingRequest {
        let since = self.arriving.lock().add(self.all.checks.load(Relaxed));
        ArrivingRequest { reader: Arc::clone(self), since }
    }
}

impl Reservation {
    /// Reserves memory for a body. Returns whether it fits.
    pub(crate) fn make_room(&self, bytes: usize) -> bool {
        let Some(more) = self.missing(bytes) else { return true };
        let ResponseReader { all, held, bodies, .. } = &*self.reader;
        let own = self.body.load(Relaxed);
        // One response may be larger than the bound.
        let fit = |others: usize| (others == own || others + more <= PER_CONNECTION).then_some(others + more);
        if bodies.fetch_update(Relaxed, Relaxed, fit).is_err() {
            return false;
        }
        if held.fetch_add(more, Relaxed) + more <= ALWAYS {
            all.held.fetch_add(more, Relaxed);
        } else if !all.add_if_it_fits(more) {
            held.fetch_sub(more, Relaxed);
            bodies.fetch_sub(more, Relaxed);
            return false;
        }
        self.grow(more);
        true
    }

    /// Counts a body even if it does not fit.
    pub(crate) fn take(&self, bytes: usize) {
        let Some(more) = self.missing(bytes) else { return };
        self.reader.add_body(more);
        self.grow(more);
    }

    /// Returns the bytes of a body beyond the reservation, if any.
    fn missing(&self, bytes: usize) -> Option<usize> {
        let reserved = self.body.load(Relaxed);
        (bytes > reserved.max(SMALL)).then(|| bytes - reserved)
    }

    fn grow(&self, more: usize) {
        self.body.fetch_add(more, Relaxed);
        self.held.fetch_add(more, Relaxed);
    }

    /// Counts a response, or a part of it with so many more bytes, that is handed to the protocol.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> MemoryCharge {
        let reader = &self.reader;
        reader.add_body(bytes);
        let since = reader.unread.lock().add(reader.all.checks.load(Relaxed));
        MemoryCharge { reservation: Arc::clone(self), bytes, since: since.into() }
    }
}

impl MemoryCharge {
    /// Records that a part of the response was read.
    pub(crate) fn progressed(&self) {
        let reader = &self.reservation.reader;
        let now = reader.all.checks.load(Relaxed);
        if self.since.load(Relaxed) < now {
            let mut unread = reader.unread.lock();
            // Under the lock, so that parts that are read at the same time don't remove it twice.
            unread.remove(self.since.load(Relaxed));
            self.since.store(unread.add(now), Relaxed);
        }
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        let reader = &self.reservation.reader;
        reader.unread.lock().remove(self.since.load(Relaxed));
        reader.release(self.bytes, self.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        // Most requests over HTTP/1 reserve nothing and need not touch the shared counters.
        if held > 0 {
            self.reader.release(held, *self.body.get_mut());
        }
    }
}

impl Drop for ArrivingRequest {
    fn drop(&mut self) {
        self.reader.arriving.lock().remove(self.since);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Barrier, atomic::Ordering::Relaxed},
        time::Duration,
    };

    use super::{ALWAYS, PER_CONNECTION, RESERVED, Reservation, ResponseReader, SMALL, UnreadResponses};

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Returns the reservation of a request whose response has so many bytes, if it fits.
    fn response(reader: &Arc<ResponseReader>, bytes: usize) -> Option<Arc<Reservation>> {
        let reservation = reader.begin()?;
        reservation.make_room(bytes).then_some(reservation)
    }

    #[test]
    fn a_connection_may_leave_one_response_of_any_size_or_several_up_to_its_bound_unread() {
        let all = UnreadResponses::new(64 << 20, TIMEOUT);
        let reader = &all.reader();
        let large = response(reader, 2 * PER_CONNECTION).expect("the first may be large");
        assert!(response(reader, SMALL + 1).is_none(), "not while another one is unread");
        assert!(response(reader, SMALL).is_some(), "small responses always fit");
        drop(large);
        let several: Vec<_> = (0..4).map(|_| response(reader, PER_CONNECTION / 4).expect("they fit")).collect();
        assert!(response(reader, SMALL + 1).is_none());
        assert!(response(&all.reader(), PER_CONNECTION).is_some(), "another connection has its own bound");
        drop(several);
        assert_eq!(all.held.load(Relaxed), 0, "all memory is released");
    }

    #[test]
    fn only_one_of_several_concurrent_large_responses_fits() {
        let all = UnreadResponses::new(64 << 20, TIMEOUT);
        for _ in 0..100 {
            let reader = all.reader();
            let start = Barrier::new(4);
            let fit = std::thread::scope(|scope| {
                let one = || {
                    start.wait();
                    response(&reader, 2 * PER_CONNECTION)
                };
                let threads = [(); 4].map(|()| scope.spawn(one));
                // All are kept until all have tried.
                let held = threads.map(|thread| thread.join().expect("it ends"));
                held.iter().flatten().count()
            });
            assert_eq!(fit, 1);
        }
        assert_eq!(all.held.load(Relaxed), 0);
    }

    #[test]
    fn requests_in_progress_are_counted_before_they_have_a_response() {
        let all = UnreadResponses::new(1 << 20, TIMEOUT);
        let connections: Vec<_> = (0..100).map(|_| all.reader()).collect();
        let mut begun = Vec::new();
        for reader in &connections {
            begun.extend(std::iter::from_fn(|| reader.begin()).take(128));
        }
        assert!(all.held.load(Relaxed) <= (1 << 20) + 100 * ALWAYS, "{}", all.held.load(Relaxed));
        let before = all.held.load(Relaxed);
        let responses: Vec<_> = begun.iter().map(|one| (one.make_room(SMALL), one.charge(0))).collect();
        assert!(responses.iter().all(|(fits, _)| *fits));
        assert_eq!(all.held.load(Relaxed), before, "a small response takes what was reserved");
        drop((begun, responses));
        assert_eq!(all.held.load(Relaxed), 0);
    }

    #[test]
    fn a_full_listener_serves_connections_that_use_little_memory() {
        let all = UnreadResponses::new(1 << 20, TIMEOUT);
        let (slow, reader) = (all.reader(), &all.reader());
        let full = slow.begin_waiting(1 << 20).expect("it fits");
        assert!(slow.begin_waiting(1).is_none());
        assert!(response(reader, ALWAYS).is_none());
        assert!(response(reader, ALWAYS - RESERVED).is_some());
        let held: Vec<_> = std::iter::from_fn(|| response(reader, SMALL)).collect();
        assert_eq!(held.len(), ALWAYS / RESERVED);
        assert_eq!(all.held.load(Relaxed), (1 << 20) + held.len() * RESERVED);
        drop(full);
        assert!(reader.begin().is_some());
    }

    #[test]
    fn reserved_memory_is_counted_once() {
        let all = UnreadResponses::new(1 << 20, TIMEOUT);
        let reader = all.reader();
        let reservation = reader.begin().expect("there is room");
        assert!(reservation.make_room(20_000));
        assert!(reservation.make_room(16_384));
        reservation.take(16_384);
        assert_eq!(all.held.load(Relaxed), RESERVED + 20_000);
        reservation.take(30_000);
        assert_eq!(all.held.load(Relaxed), RESERVED + 30_000);
        drop(reservation);
        assert_eq!((all.held.load(Relaxed), reader.bodies.load(Relaxed)), (0, 0));
    }
}
