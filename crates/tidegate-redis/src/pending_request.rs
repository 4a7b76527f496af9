//! [`PendingRequest`]: a request that waits for the reply of a server.

use std::{ops::Range, sync::Arc};

use tidegate::Timestamp;
use tokio::sync::oneshot;

use crate::{error::Error, stopwatch, wire::Group};

/// A request that waits for the reply of a server.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pub(crate) group: Group,
    pub(crate) given: Option<Timestamp>,
    /// When its caller stops waiting, by the stopwatch.
    pub(crate) deadline: u64,
    /// The slot is being moved to this node, which requires ASKING.
    pub(crate) asking: bool,
    /// Needs a call of its own, because the keys of other requests may be at another node.
    pub(crate) alone: bool,
    pub(crate) reply_to: oneshot::Sender<Result<GroupReply, Error>>,
    /// Set by the node that the request was submitted to, which counts its outstanding requests by these references.
    pub(crate) outstanding: Option<Arc<()>>,
}

/// The reply to one request, as a part of the reply to its batch.
#[derive(Debug)]
pub(crate) struct GroupReply {
    pub(crate) reply: Arc<Vec<u8>>,
    pub(crate) range: Range<usize>,
    /// Whether nothing was done because no new key may be created. Then the bytes show which keys exist.
    pub(crate) no_room: bool,
}

impl GroupReply {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.reply[self.range.clone()]
    }
}

impl PendingRequest {
    /// A request, and the receiver of its reply.
    pub(crate) fn new(
        group: Group,
        given: Option<Timestamp>,
        deadline: u64,
    ) -> (Self, oneshot::Receiver<Result<GroupReply, Error>>) {
        let (reply_to, reply) = oneshot::channel();
        (Self { group, given, deadline, asking: false, alone: false, reply_to, outstanding: None }, reply)
    }

    /// The slot of its first key. In a cluster all of its keys have the same slot.
    pub(crate) fn slot(&self) -> u16 {
        self.group.parts[0].name.slot
    }

    pub(crate) fn fail(self, error: Error) {
        // The caller may have stopped waiting.
        let _ = self.reply_to.send(Err(error));
    }

    pub(crate) fn is_late(&self) -> bool {
        stopwatch::micros() >= self.deadline
    }
}
