//! [`Chunk`]: requests on their way from the reader to the policies, with the numbers of their clients.

use crate::logs::{Request, RequestBuffer};

/// Number of requests in a chunk: large enough to amortize a channel message, small enough for the cache.
pub(super) const CHUNK: usize = 1024;

/// Requests in order.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    requests: RequestBuffer,
    clients: Vec<u32>,
    /// Member numbers of the clients in their groups. Empty without groups.
    members: Vec<u32>,
}

impl Chunk {
    #[inline]
    pub(super) fn push(&mut self, request: &Request<'_>, client: u32, member: Option<u32>) {
        self.requests.push(request);
        self.clients.push(client);
        self.members.extend(member);
    }

    /// Returns each request and the member number of its client, if there are groups.
    pub(super) fn members(&self) -> impl Iterator<Item = (Request<'_>, u32)> {
        self.requests.iter().zip(self.members.iter().copied())
    }

    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }

    /// Returns each request and the number of its client.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Request<'_>, u32)> {
        self.requests.iter().zip(self.clients.iter().copied())
    }
}
