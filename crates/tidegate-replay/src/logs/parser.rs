//! [`Parser`]: one input's lines, turned into requests, block by block.

use std::sync::{Arc, atomic::AtomicU64};

use tidegate::Key;

use super::{
    By, Input, LogError, Price, Reading, Request,
    fields::Fields,
    format::Format,
    source::{Block, Blocks},
};
use crate::findings::Malformed;

/// How many lines that can't be read are shown.
const SHOWN: usize = 5;

/// The most bytes of such a line that are shown.
const SHOWN_TEXT: usize = 120;

/// Makes requests of an input's lines.
pub(super) struct Parser {
    blocks: Blocks,
    lines: Lines,
    /// What the first block came to.
    first: Option<Batch>,
}

/// The requests of a block.
#[derive(Debug, Default)]
pub(super) struct Batch {
    requests: Vec<Placed>,
    keys: Vec<u8>,
    pub(super) lines: u64,
    pub(super) malformed: u64,
    pub(super) first_malformed: Vec<Malformed>,
    pub(super) without_key: u64,
    /// Why the input ended before its end.
    pub(super) trouble: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Placed {
    time_us: u64,
    cost: u64,
    key_from: u32,
    key_to: u32,
}

impl Batch {
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<Request<'_>> {
        let Placed { time_us, cost, key_from, key_to } = *self.requests.get(number)?;
        Some(Request { time_us, cost, key: &self.keys[key_from as usize..key_to as usize] })
    }
}

impl Parser {
    /// Opens an input and reads its first block. Unsaid, clients and costs are what is usual for its format: the address and 1, or what
    /// the trace says.
    ///
    /// # Errors
    /// If it can't be opened, or has not the fields that are wanted.
    pub(super) fn open(input: &Input, reading: &Reading, read: Arc<AtomicU64>) -> Result<Self, LogError> {
        let mut blocks = Blocks::open(input, read)?;
        let name = input.name();
        let (first, trouble) = match blocks.next() {
            Ok(first) => (first, None),
            Err(error) => (None, Some(error)),
        };
        let beginning = first.map_or(&[][..], |block| block.bytes);
        let is_trace = Format::is_trace(&reading.format, beginning);
        let unsaid = || if is_trace { By::key() } else { By::ip() };
        let by = reading.by.clone().unwrap_or_else(unsaid);
        let unsaid = || if is_trace { Price::of_trace() } else { Price::one() };
        let price = reading.price.clone().unwrap_or_else(unsaid);
        let mut wanted = by.fields();
        wanted.extend(price.field());
        let (format, head) = if beginning.is_empty() {
            (Format::default(), 0)
        } else {
            Format::new(&reading.format, beginning, &wanted, &name)?
        };
        let mut lines = Lines {
            name,
            format,
            by,
            price,
            fields: Fields::new(wanted.len()),
            price_field: wanted.len().saturating_sub(1),
        };
        let mut batch = Batch::default();
        if let Some(block) = first {
            lines.block(block, head, &mut batch);
        }
        batch.trouble = trouble.map(|error| lines.trouble(&error));
        Ok(Self { blocks, lines, first: Some(batch) })
    }

    /// The requests of the next block; `None` after the last.
    pub(super) fn next(&mut self) -> Option<Batch> {
        if let Some(batch) = self.first.take() {
            return Some(batch);
        }
        let mut batch = Batch::default();
        match self.blocks.next() {
            Ok(Some(block)) => self.lines.block(block, 0, &mut batch),
            Ok(None) => return None,
            Err(error) => batch.trouble = Some(self.lines.trouble(&error)),
        }
        Some(batch)
    }

    /// The time of the first request; 0 if there is none.
    pub(super) fn first_us(&mut self) -> u64 {
        std::iter::from_fn(|| self.next()).find_map(|batch| Some(batch.get(0)?.time_us)).unwrap_or(0)
    }

    /// What clients are counted by.
    pub(super) fn by(&self) -> &By {
        &self.lines.by
    }
}

/// Makes requests of lines.
struct Lines {
    name: String,
    format: Format,
    by: By,
    price: Price,
    fields: Fields,
    /// The number of the field that has the cost.
    price_field: usize,
}

impl Lines {
    fn block(&mut self, block: Block<'_>, head: usize, batch: &mut Batch) {
        let heads = memchr::memchr_iter(b'\n', &block.bytes[..head]).count() as u64;
        let (mut number, mut from) = (block.first_line + heads, head);
        if block.is_too_long {
            batch.lines += 1;
            self.flaw(number, block.bytes, "it is longer than 1 MiB", batch);
            return;
        }
        // A request takes some hundred bytes of a log; a little more room than needed does no harm.
        batch.requests.reserve(block.bytes.len() / 96);
        while from < block.bytes.len() {
            let rest = &block.bytes[from..];
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest[..len].strip_suffix(b"\r").unwrap_or(&rest[..len]);
            if !line.is_empty() {
                batch.lines += 1;
                if let Err(why) = self.line(line, batch) {
                    self.flaw(number, line, why, batch);
                }
            }
            (number, from) = (number + 1, from + len + 1);
        }
    }

    #[inline]
    fn line(&mut self, line: &[u8], batch: &mut Batch) -> Result<(), &'static str> {
        self.fields.clear();
        let time_us = self.format.read(line, &mut self.fields)?;
        let cost = self.price.of(self.price_field, line, &self.fields)?;
        let key_from = batch.keys.len();
        if !self.by.write(&mut batch.keys, line, &self.fields) {
            batch.keys.truncate(key_from);
            batch.without_key += 1;
            return Ok(());
        }
        if Key::new(&batch.keys[key_from..]).is_err() {
            batch.keys.truncate(key_from);
            return Err("its key is longer than 1024 bytes");
        }
        // A block has at most 2^20 bytes, and a key at most a little more than its line.
        let place = |at: usize| u32::try_from(at).expect("keys are as short as lines");
        let (key_from, key_to) = (place(key_from), place(batch.keys.len()));
        batch.requests.push(Placed { time_us, cost, key_from, key_to });
        Ok(())
    }

    fn trouble(&self, error: &std::io::Error) -> String {
        format!("{} can't be read to its end: {error}; what came before counts", self.name)
    }

    #[cold]
    fn flaw(&self, line: u64, text: &[u8], why: &str, batch: &mut Batch) {
        batch.malformed += 1;
        if batch.first_malformed.len() < SHOWN {
            let text = String::from_utf8_lossy(&text[..text.len().min(SHOWN_TEXT)]);
            let text = text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c });
            batch.first_malformed.push(Malformed {
                file: self.name.clone(),
                line,
                why: why.to_owned(),
                text: text.collect(),
            });
        }
    }
}
