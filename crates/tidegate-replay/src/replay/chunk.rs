//! [`Chunk`]: some requests on their way from the logs to the policies, with the numbers of their clients.

use crate::logs::Request;

/// How many requests travel together: so many that it costs nothing, so few that they stay in the cache.
pub(super) const CHUNK: usize = 1024;

/// Requests in their order.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    keys: Vec<u8>,
    requests: Vec<Placed>,
}

#[derive(Debug)]
struct Placed {
    time_us: u64,
    cost: u64,
    key_end: usize,
    client: u32,
}

impl Chunk {
    #[inline]
    pub(super) fn push(&mut self, request: &Request<'_>, client: u32) {
        self.keys.extend_from_slice(request.key);
        let key_end = self.keys.len();
        self.requests.push(Placed { time_us: request.time_us, cost: request.cost, key_end, client });
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Each request, and the number of its client.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Request<'_>, u32)> {
        let mut from = 0;
        self.requests.iter().map(move |placed| {
            let key = &self.keys[from..placed.key_end];
            from = placed.key_end;
            (Request { time_us: placed.time_us, cost: placed.cost, key }, placed.client)
        })
    }
}
