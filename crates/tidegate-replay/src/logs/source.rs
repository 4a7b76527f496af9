//! [`BlockReader`]: decompresses a file or standard input and splits it into blocks of whole lines.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{LogError, xz, zstd::ZstdReader};

/// Maximum number of bytes of a block, and so of a line.
const BLOCK: usize = 1 << 20;

/// A read that returns fewer bytes comes from a source that has no more bytes at the moment.
const SLOW: usize = 4096;

/// A source of log lines.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogSource {
    /// A file: plain, or compressed with gzip, xz or zstd.
    File(PathBuf),
    /// Standard input: plain or compressed.
    Stdin,
}

impl LogSource {
    /// Returns the path of the file, or `-`.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "-".to_owned(),
        }
    }

    /// Returns the size in bytes if it is known in advance.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::File(path) => path.metadata().ok().filter(std::fs::Metadata::is_file).map(|file| file.len()),
            Self::Stdin => None,
        }
    }
}

/// A block of whole lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    /// The lines. The last line of a source may lack its newline.
    pub(super) bytes: &'a [u8],
    /// Number of the first line, from 1.
    pub(super) first_line: u64,
    /// Whether the block is only the beginning of a line that exceeds the maximum.
    pub(super) is_too_long: bool,
}

/// Reads a source block by block.
pub(super) struct BlockReader {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Number of bytes of the buffer that were returned, and that are filled.
    taken: usize,
    filled: usize,
    next_line: u64,
    /// Whether the reader is within a line that is too long.
    is_skipping: bool,
    /// How the source ended, if it did.
    end: Option<io::Result<()>>,
}

impl BlockReader {
    /// Opens a source. `read` counts its bytes before decompression.
    pub(super) fn open(source: &LogSource, read: Arc<AtomicU64>) -> Result<Self, LogError> {
        let opened = match source {
            LogSource::Stdin => decompress(CountingReader { reader: io::stdin(), read }),
            LogSource::File(path) => {
                File::open(path).and_then(|file| decompress(CountingReader { reader: file, read }))
            }
        };
        let reader = opened.map_err(|error| LogError::File { path: PathBuf::from(source.name()), error })?;
        Ok(Self::new(reader))
    }

    fn new(reader: Box<dyn Read + Send>) -> Self {
        let buffer = vec![0; BLOCK];
        Self { reader, buffer, taken: 0, filled: 0, next_line: 1, is_skipping: false, end: None }
    }

    /// Returns the first bytes without taking them. They are empty if the source is empty or can't be read.
    pub(super) fn beginning(&mut self) -> &[u8] {
        self.fill();
        &self.buffer[..self.filled]
    }

    /// Returns the next lines, or `None` at the end.
    ///
    /// # Errors
    /// If the source can't be read. All complete lines before the error were returned before.
    pub(super) fn next(&mut self) -> io::Result<Option<Block<'_>>> {
        loop {
            self.buffer.copy_within(self.taken..self.filled, 0);
            (self.filled, self.taken) = (self.filled - self.taken, 0);
            self.fill();
            if self.is_skipping {
                let end = memchr::memchr(b'\n', &self.buffer[..self.filled]);
                self.taken = end.map_or(self.filled, |newline| newline + 1);
                self.is_skipping = end.is_none();
                self.next_line += u64::from(end.is_some());
            }
            let (from, first_line) = (self.taken, self.next_line);
            let bytes = &self.buffer[from..self.filled];
            let whole = match (memchr::memrchr(b'\n', bytes), &self.end) {
                (_, Some(Ok(()))) => bytes.len(),
                (Some(newline), _) => newline + 1,
                (None, _) => 0,
            };
            if whole == 0 && bytes.len() == BLOCK {
                self.is_skipping = true;
                self.taken = self.filled;
                return Ok(Some(Block { bytes: &self.buffer[..1024], first_line, is_too_long: true }));
            }
            if whole > 0 {
                self.taken += whole;
                let bytes = &self.buffer[from..self.taken];
                self.next_line += memchr::memchr_iter(b'\n', bytes).count() as u64;
                return Ok(Some(Block { bytes, first_line, is_too_long: false }));
            }
            if let Some(end) = &mut self.end {
                return std::mem::replace(end, Ok(())).map(|()| None);
            }
        }
    }

    /// Reads until the buffer is full, the source ends, or the source has no more lines at the moment.
    fn fill(&mut self) {
        while self.end.is_none() && self.filled < BLOCK {
            match self.reader.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.end = Some(Ok(())),
                Ok(bytes) => {
                    self.filled += bytes;
                    if bytes < SLOW && memchr::memchr(b'\n', &self.buffer[self.filled - bytes..self.filled]).is_some() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.end = Some(Err(error));
                    // The end of the last line is lost, so the line can't be trusted.
                    let whole = memchr::memrchr(b'\n', &self.buffer[..self.filled]).map_or(0, |newline| newline + 1);
                    self.filled = whole;
                }
            }
        }
    }
}

/// Detects compression by the first bytes, regardless of the file name.
fn decompress(input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut input = BufReader::with_capacity(1 << 17, input);
    let beginning = input.fill_buf()?;
    Ok(if beginning.starts_with(&[0x1f, 0x8b]) {
        Box::new(flate2::bufread::MultiGzDecoder::new(input))
    } else if beginning.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Box::new(ZstdReader::new(input))
    } else if beginning.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        Box::new(xz::reader(input))
    } else {
        Box::new(input)
    })
}

struct CountingReader<R> {
    reader: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.reader.read(buffer)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::{BLOCK, BlockReader};

    /// Returns one piece per read, and then an end or an error.
    struct Pieces(Vec<Vec<u8>>, bool);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return if self.1 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(0) };
            }
            let piece = &mut self.0[0];
            let len = piece.len().min(buffer.len());
            buffer[..len].copy_from_slice(&piece[..len]);
            piece.drain(..len);
            if piece.is_empty() {
                self.0.remove(0);
            }
            Ok(len)
        }
    }

    /// Returns all lines with their numbers and whether they are too long, and whether the source ended without an error.
    fn lines(pieces: &[&[u8]], fails: bool) -> (Vec<(u64, String, bool)>, bool) {
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        let mut blocks = BlockReader::new(Box::new(Pieces(pieces, fails)));
        let mut lines = Vec::new();
        loop {
            match blocks.next() {
                Ok(Some(block)) => {
                    let texts = block.bytes.strip_suffix(b"\n").unwrap_or(block.bytes).split(|byte| *byte == b'\n');
                    for (number, text) in (block.first_line..).zip(texts) {
                        let text = String::from_utf8_lossy(&text[..text.len().min(9)]).into_owned();
                        lines.push((number, text, block.is_too_long));
                    }
                }
                Ok(None) => return (lines, true),
                Err(_) => return (lines, false),
            }
        }
    }

    fn line(number: u64, text: &str) -> (u64, String, bool) {
        (number, text.to_owned(), false)
    }

    #[test]
    fn blocks_hold_whole_lines_for_any_read_sizes() {
        assert_eq!(lines(&[], false), (vec![], true));
        assert_eq!(lines(&[b"a"], false), (vec![line(1, "a")], true));
        assert_eq!(lines(&[b"a", b"b\nc", b"\n"], false), (vec![line(1, "ab"), line(2, "c")], true));
        assert_eq!(lines(&[b"a\n", b"\n", b"b\nc"], false).0, [line(1, "a"), line(2, ""), line(3, "b"), line(4, "c")]);
    }

    #[test]
    fn complete_lines_before_an_error_are_returned() {
        assert_eq!(lines(&[b"a\nb\nhal"], true), (vec![line(1, "a"), line(2, "b")], false));
        assert_eq!(lines(&[b"hal"], true), (vec![], false));
    }

    #[test]
    fn a_line_that_is_too_long_needs_no_more_memory_than_a_block() {
        let long = vec![b'x'; 3 * BLOCK + 17];
        let (found, well) = lines(&[b"a\n", &long, b"\nb\n"], false);
        assert_eq!(found, [line(1, "a"), (2, "xxxxxxxxx".to_owned(), true), line(3, "b")]);
        assert!(well);
        let (found, _) = lines(&[&long], false);
        assert_eq!(found, [(1, "xxxxxxxxx".to_owned(), true)]);
        let just_fits = vec![b'x'; BLOCK - 1];
        assert_eq!(lines(&[&just_fits, b"\nb"], false).0, [line(1, "xxxxxxxxx"), line(2, "b")]);
    }
}
