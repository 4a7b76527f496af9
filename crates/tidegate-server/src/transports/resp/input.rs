//! [`Input`]: what was read and not yet understood. It grows with what comes and shrinks when that is over.

/// What an idle connection holds.
const SMALL: usize = 4 << 10;

/// What it grows to for a caller that sends much at once.
const LARGE: usize = 64 << 10;

/// Bytes read from a connection.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Beyond this it does not grow.
    most: usize,
}

impl Input {
    /// For commands of up to `longest` bytes.
    pub(crate) fn new(longest: usize) -> Self {
        Self { bytes: vec![0; SMALL], start: 0, end: 0, most: LARGE.max(longest + 1) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Where to read to. It is never empty as long as commands of the longest size are taken out.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.end == self.bytes.len() {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            if self.end > self.bytes.len() / 2 {
                self.bytes.resize((self.bytes.len() * 2).min(self.most), 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// So many bytes were read.
    pub(crate) fn filled(&mut self, count: usize) {
        self.end += count;
    }

    /// What was read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// So many bytes are done with.
    pub(crate) fn done(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            // One that was not even a quarter full need not be as large.
            if self.bytes.len() > SMALL && self.end < self.bytes.len() / 4 {
                self.bytes.truncate(SMALL);
                self.bytes.shrink_to_fit();
            }
            (self.start, self.end) = (0, 0);
        }
    }
}
