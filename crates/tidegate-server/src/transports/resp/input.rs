//! [`Input`]: the buffer of a connection for bytes that are not parsed yet. It grows with the input and shrinks again.

/// Size for an idle connection.
const SMALL: usize = 4 << 10;

/// Size for a caller that sends much at once.
const LARGE: usize = 64 << 10;

/// Bytes read from a connection.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    was_full: bool,
    /// Maximum size.
    max: usize,
}

impl Input {
    /// Creates a buffer for commands of up to `longest` bytes.
    pub(crate) fn new(longest: usize) -> Self {
        Self { bytes: vec![0; SMALL], start: 0, end: 0, was_full: false, max: LARGE.max(longest + 1) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the free part of the buffer. It is never empty if complete commands are removed.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        // If the buffer was full, more input is probably waiting.
        if self.was_full && (self.bytes.len() < LARGE || self.end == self.bytes.len()) {
            self.bytes.resize((self.bytes.len() * 2).min(self.max), 0);
        }
        self.was_full = false;
        &mut self.bytes[self.end..]
    }

    /// Records that bytes were read.
    pub(crate) fn filled(&mut self, count: usize) {
        self.end += count;
        self.was_full = self.end == self.bytes.len();
    }

    /// Returns the bytes that were read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Removes bytes that were parsed.
    pub(crate) fn done(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            // A buffer that was less than a quarter full need not be as large, and huge commands are rare.
            let kept = if self.end < self.bytes.len() / 4 { SMALL } else { LARGE };
            if self.bytes.len() > kept {
                self.bytes.truncate(kept);
                self.bytes.shrink_to_fit();
            }
            (self.start, self.end) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Input, LARGE, SMALL};

    /// Fills the buffer with a command of so many bytes.
    fn fill(input: &mut Input, bytes: usize) {
        while input.bytes().len() < bytes {
            let room = input.room().len();
            assert!(room > 0, "the longest command always fits");
            input.filled(room.min(bytes - input.bytes().len()));
        }
    }

    #[test]
    fn the_buffer_grows_with_the_input_and_shrinks_again() {
        let longest = 1 << 20;
        let mut input = Input::new(longest);
        fill(&mut input, longest + 1);
        assert_eq!(input.bytes.len(), longest + 1, "and no further");
        input.done(longest - 9);
        assert_eq!(input.bytes().len(), 10);
        fill(&mut input, longest);
        input.done(longest);
        assert_eq!(input.bytes.len(), LARGE);
        fill(&mut input, 100);
        input.done(100);
        assert_eq!(input.bytes.len(), SMALL);
        assert_eq!(input.room().len(), SMALL);
    }
}
