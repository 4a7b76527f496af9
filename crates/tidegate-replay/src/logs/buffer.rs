//! [`RequestBuffer`]: requests in order, with all keys and groups in one allocation.

use super::Request;

/// Requests in order.
#[derive(Debug, Default)]
pub(crate) struct RequestBuffer {
    /// The key and the group of each request.
    texts: Vec<u8>,
    requests: Vec<BufferedRequest>,
}

/// A request without its texts. The key starts where the group of the previous request ends.
#[derive(Debug, Clone, Copy)]
struct BufferedRequest {
    time_us: u64,
    duration_us: u64,
    cost: u64,
    position: u64,
    key_end: usize,
    group_end: usize,
}

impl RequestBuffer {
    #[inline]
    pub(crate) fn push(&mut self, request: &Request<'_>) {
        let Request { time_us, duration_us, key, cost, group, position } = *request;
        self.texts.extend_from_slice(key);
        let key_end = self.texts.len();
        self.texts.extend_from_slice(group);
        let group_end = self.texts.len();
        self.requests.push(BufferedRequest { time_us, duration_us, cost, position, key_end, group_end });
    }

    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<Request<'_>> {
        let BufferedRequest { time_us, duration_us, cost, position, key_end, group_end } =
            *self.requests.get(number)?;
        let start = number.checked_sub(1).map_or(0, |previous| self.requests[previous].group_end);
        let (key, group) = (&self.texts[start..key_end], &self.texts[key_end..group_end]);
        Some(Request { time_us, duration_us, key, cost, group, position })
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
        self.texts.clear();
        self.requests.clear();
    }
}
