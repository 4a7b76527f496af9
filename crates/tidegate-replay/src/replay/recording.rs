//! [`Recording`]: the requests of the replay in a few bytes each, to count afterwards what a limit would have denied.
//!
//! The limits worth considering are known only at the end. The recording then gives the requests again. It holds at most
//! [`MAX_BYTES`]. If it is full, it drops the requests of the clients with the lowest peaks, because a limit is the least likely to deny
//! them.

/// Maximum size: about 15 million requests.
const MAX_BYTES: usize = 64 << 20;

/// Requests in the order of the decisions.
#[derive(Debug)]
pub(super) struct Recording {
    bytes: Vec<u8>,
    max_bytes: usize,
    last_us: u64,
    /// For each client, whether requests of it were dropped.
    is_incomplete: Vec<bool>,
    is_stopped: bool,
}

/// A recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordedRequest {
    pub(super) client: u32,
    pub(super) time_us: u64,
    pub(super) cost: u64,
}

impl Default for Recording {
    fn default() -> Self {
        Self::new(MAX_BYTES)
    }
}

impl Recording {
    fn new(max_bytes: usize) -> Self {
        Self { bytes: Vec::new(), max_bytes, last_us: 0, is_incomplete: Vec::new(), is_stopped: false }
    }

    /// Records a request. `peak` returns the peak of a client.
    #[inline]
    pub(super) fn push(&mut self, request: RecordedRequest, peak: impl Fn(u32) -> u64) {
        if self.bytes.len() >= self.max_bytes {
            self.drop_low_peaks(peak);
        }
        if self.is_stopped {
            return self.mark(request.client);
        }
        write(&mut self.bytes, request, &mut self.last_us);
    }

    /// Returns whether all requests of a client are recorded.
    pub(super) fn is_complete(&self, client: u32) -> bool {
        !self.is_incomplete.get(client as usize).copied().unwrap_or(false)
    }

    fn mark(&mut self, client: u32) {
        let client = client as usize;
        if self.is_incomplete.len() <= client {
            self.is_incomplete.resize(client + 1, false);
        }
        self.is_incomplete[client] = true;
    }

    /// Drops the requests of the clients with the lowest peaks, about half of all. Stops the recording if that frees too little.
    #[cold]
    fn drop_low_peaks(&mut self, peak: impl Fn(u32) -> u64) {
        if self.is_stopped {
            return;
        }
        let mut peaks: Vec<u64> = self.iter().map(|request| peak(request.client)).collect();
        let middle = peaks.len() / 2;
        let median = *peaks.select_nth_unstable(middle).1;
        // The clients with the highest peak stay.
        let highest = peaks.iter().max().copied().unwrap_or(0);
        let dropped_peak = median.min(highest.saturating_sub(1));
        let (mut kept, mut last_us) = (Vec::with_capacity(self.bytes.len() / 2), 0);
        let mut dropped = Vec::new();
        for request in self.iter() {
            if peak(request.client) > dropped_peak {
                write(&mut kept, request, &mut last_us);
            } else {
                dropped.push(request.client);
            }
        }
        for client in dropped {
            self.mark(client);
        }
        self.is_stopped = kept.len() > self.max_bytes / 4 * 3;
        (self.bytes, self.last_us) = (kept, last_us);
    }

    /// Returns the recorded requests in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = RecordedRequest> + '_ {
        let (mut rest, mut last_us) = (&self.bytes[..], 0_u64);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            last_us = last_us.wrapping_add_signed(unfold(read(&mut rest)));
            let client = read(&mut rest);
            let cost = if client & 1 == 0 { 1 } else { read(&mut rest) };
            Some(RecordedRequest { client: u32::try_from(client >> 1).unwrap_or(u32::MAX), time_us: last_us, cost })
        })
    }
}

/// Appends the time since the previous request, then the client and whether a cost other than 1 follows.
#[inline]
fn write(bytes: &mut Vec<u8>, request: RecordedRequest, last_us: &mut u64) {
    let RecordedRequest { client, time_us, cost } = request;
    write_number(bytes, fold(time_us.wrapping_sub(*last_us).cast_signed()));
    write_number(bytes, u64::from(client) << 1 | u64::from(cost != 1));
    if cost != 1 {
        write_number(bytes, cost);
    }
    *last_us = time_us;
}

/// Maps small negative numbers to small positive ones.
#[inline]
fn fold(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

fn unfold(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Appends a number, seven bits in each byte.
#[inline]
fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
}

fn read(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let [byte, rest @ ..] = *bytes {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{RecordedRequest, Recording};

    fn request() -> impl Strategy<Value = RecordedRequest> {
        let time = prop_oneof![0..9_000_000_000_000_000_u64, 1_700_000_000_000_000..1_700_000_009_000_000_u64];
        let cost = prop_oneof![3 => Just(1_u64), 1 => 1..1_000_000_000_001_u64];
        let client = prop_oneof![0..9_u32, any::<u32>()];
        (client, time, cost).prop_map(|(client, time_us, cost)| RecordedRequest { client, time_us, cost })
    }

    proptest! {
        #[test]
        fn all_requests_are_returned_in_order(requests in prop::collection::vec(request(), 0..60)) {
            let mut recording = Recording::default();
            for request in &requests {
                recording.push(*request, |_| 0);
            }
            prop_assert!(recording.iter().eq(requests));
        }
    }

    #[test]
    fn a_full_recording_drops_the_clients_with_the_lowest_peaks() {
        let mut recording = Recording::new(1_000);
        for i in 0..5_000_u64 {
            let client = if i % 40 == 0 { 7 } else { 1_000 + u32::try_from(i).unwrap() };
            recording.push(RecordedRequest { client, time_us: i, cost: 1 }, |client| if client == 7 { 500 } else { 1 });
            assert!(recording.bytes.len() < 1_010, "the memory is bounded");
        }
        assert!(recording.is_complete(7) && !recording.is_complete(1_001));
        assert_eq!(recording.iter().filter(|request| request.client == 7).count(), 125);
    }

    #[test]
    fn a_recording_that_can_not_drop_enough_stops() {
        let mut recording = Recording::new(1_000);
        for time_us in 0..5_000 {
            recording
                .push(RecordedRequest { client: u32::try_from(time_us % 5).unwrap(), time_us, cost: 1 }, u64::from);
            assert!(recording.bytes.len() < 1_010, "the memory is bounded");
        }
        assert!(!recording.is_complete(0));
    }
}
