//! [`Job`]: a request on its way to a server, and its [`Answer`].

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use tidegate::Timestamp;
use tokio::sync::oneshot;

use crate::{error::Error, stopwatch, wire::Group};

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) group: Group,
    pub(crate) slot: u16,
    pub(crate) given: Option<Timestamp>,
    /// When its caller gives up, by the stopwatch.
    pub(crate) deadline: u64,
    /// The slot is being moved, and this node is where it goes.
    pub(crate) asking: bool,
    /// Not to be sent along with others: they might be at another node.
    pub(crate) alone: bool,
    pub(crate) answer: oneshot::Sender<Result<Answer, Error>>,
    /// Set by the node that the job was handed to.
    pub(crate) outstanding: Option<Outstanding>,
}

/// Counts a request that a node has not answered yet, until this is dropped.
#[derive(Debug)]
pub(crate) struct Outstanding(Arc<AtomicUsize>);

impl Outstanding {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The reply to one request within that of its batch.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Arc<Vec<u8>>,
    pub(crate) range: Range<usize>,
    /// Whether nothing was done because no new key may be created. Then the bytes say which parts have a key.
    pub(crate) no_room: bool,
}

impl Answer {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.reply[self.range.clone()]
    }
}

impl Job {
    pub(crate) fn fail(self, trouble: Error) {
        // Whoever asked may have given up.
        let _ = self.answer.send(Err(trouble));
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    pub(crate) fn is_late(&self) -> bool {
        stopwatch::micros() >= self.deadline
    }
}
