//! [`RequestBuffer`]: requests in order, with all keys in one allocation.

use super::Request;

/// Requests in order.
#[derive(Debug, Default)]
pub(crate) struct RequestBuffer {
    keys: Vec<u8>,
    requests: Vec<BufferedRequest>,
}

/// A request without its key. The key starts where the key of the previous request ends.
#[derive(Debug, Clone, Copy)]
struct BufferedRequest {
    time_us: u64,
    cost: u64,
    key_end: usize,
}

impl RequestBuffer {
    #[inline]
    pub(crate) fn push(&mut self, request: &Request<'_>) {
        self.keys.extend_from_slice(request.key);
        let Request { time_us, cost, .. } = *request;
        self.requests.push(BufferedRequest { time_us, cost, key_end: self.keys.len() });
    }

    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<Request<'_>> {
        let BufferedRequest { time_us, cost, key_end } = *self.requests.get(number)?;
        let key_start = number.checked_sub(1).map_or(0, |previous| self.requests[previous].key_end);
        Some(Request { time_us, cost, key: &self.keys[key_start..key_end] })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Request<'_>> {
        (0..self.len()).filter_map(|number| self.get(number))
    }

    pub(crate) fn times_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        self.requests.iter_mut().map(|request| &mut request.time_us)
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn reserve(&mut self, requests: usize) {
        self.requests.reserve(requests);
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.requests.clear();
    }
}
