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
    was_full: bool,
    /// Beyond this it does not grow.
    most: usize,
}

impl Input {
    /// For commands of up to `longest` bytes.
    pub(crate) fn new(longest: usize) -> Self {
        Self { bytes: vec![0; SMALL], start: 0, end: 0, was_full: false, most: LARGE.max(longest + 1) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Where to read to. It is never empty as long as commands of the longest size are taken out.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        // What filled it was probably not all that was sent.
        if self.was_full && (self.bytes.len() < LARGE || self.end == self.bytes.len()) {
            self.bytes.resize((self.bytes.len() * 2).min(self.most), 0);
        }
        self.was_full = false;
        &mut self.bytes[self.end..]
    }

    /// So many bytes were read.
    pub(crate) fn filled(&mut self, count: usize) {
        self.end += count;
        self.was_full = self.end == self.bytes.len();
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
            // One that was not even a quarter full need not be as large; and a huge command is rare.
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

    /// Fills all the room there is, for a command of so many bytes.
    fn fill(input: &mut Input, bytes: usize) {
        while input.bytes().len() < bytes {
            let room = input.room().len();
            assert!(room > 0, "there is always room for the longest command");
            input.filled(room.min(bytes - input.bytes().len()));
        }
    }

    #[test]
    fn it_grows_with_what_comes_and_shrinks_when_that_is_over() {
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
