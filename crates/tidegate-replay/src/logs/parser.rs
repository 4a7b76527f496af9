//! [`Parser`]: turns the lines of one file into requests, block by block.

use std::sync::{Arc, atomic::AtomicU64};

use tidegate::Key;

use super::{
    ClientKey, CostSource, DurationSource, Filters, FormatChoice, LogError, LogSource, MalformedLine, ReadOptions,
    Request, RequestBuffer,
    fields::Fields,
    format::Format,
    source::{Block, BlockReader},
    summary::SHOWN_MALFORMED,
};

/// Number of bytes of a malformed line that are shown.
const SHOWN_BYTES: usize = 120;

/// Maximum length of a group. Groups that differ only after it are one.
const GROUP_BYTES: usize = 256;

/// Returns the first lines of a file.
fn sample(beginning: &[u8]) -> Vec<u8> {
    beginning.split_inclusive(|byte| *byte == b'\n').take(100).flatten().copied().collect()
}

/// Parser of one file.
pub(super) struct Parser {
    blocks: BlockReader,
    lines: LineParser,
    /// Length of the header, which is part of the first block.
    header_len: usize,
}

/// Requests of one block.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) requests: RequestBuffer,
    pub(super) lines: u64,
    pub(super) malformed: u64,
    pub(super) first_malformed: Vec<MalformedLine>,
    pub(super) without_key: u64,
    pub(super) filtered: u64,
    /// Bits of the filters whose field a line has.
    pub(super) filters_found: u64,
    /// Error that ended the file early.
    pub(super) error: Option<String>,
}

impl Parser {
    /// Opens a file and detects its format.
    ///
    /// # Errors
    /// If the file can't be opened, or lacks a required field.
    pub(super) fn open(source: &LogSource, options: &ReadOptions, read: Arc<AtomicU64>) -> Result<Self, LogError> {
        let mut blocks = BlockReader::open(source, read)?;
        let (name, beginning) = (source.name(), blocks.beginning());
        let (default_key, default_cost) = match options.format.detected(beginning) {
            FormatChoice::Csv => (ClientKey::key(), CostSource::trace()),
            _ => (ClientKey::ip(), CostSource::one()),
        };
        let client_key = options.client_key.clone().unwrap_or(default_key);
        let cost = options.cost.clone().unwrap_or(default_cost);
        let mut wanted = client_key.fields();
        let first_of_group = wanted.len();
        wanted.extend(options.group.iter().flat_map(ClientKey::fields));
        let first_of_cost = wanted.len();
        wanted.extend(cost.field());
        let first_of_duration = wanted.len();
        wanted.extend(options.duration.iter().map(DurationSource::field));
        let first_of_filters = wanted.len();
        wanted.extend(options.filters.fields());
        let (format, header_len) = if beginning.is_empty() {
            (Format::default(), 0)
        } else {
            Format::new(&options.format, beginning, &wanted, &name)?
        };
        let sample = if options.duration.is_some() { sample(&beginning[header_len..]) } else { Vec::new() };
        let mut lines = LineParser {
            name,
            format,
            client_key,
            group: options.group.clone(),
            first_of_group,
            key: Vec::new(),
            group_text: Vec::new(),
            cost,
            first_of_cost,
            duration: options.duration.clone(),
            first_of_duration,
            filters: options.filters.clone(),
            first_of_filters,
            fields: Fields::new(wanted.len()),
        };
        if lines.lacks_durations(&sample) {
            return Err(LogError::NoDuration { name: lines.name });
        }
        Ok(Self { blocks, lines, header_len })
    }

    /// Returns the requests of the next block, or `None` at the end.
    pub(super) fn next(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        match self.blocks.next() {
            Ok(Some(block)) => self.lines.parse_block(block, std::mem::take(&mut self.header_len), &mut batch),
            Ok(None) => return None,
            Err(error) => {
                let name = &self.lines.name;
                batch.error = Some(format!("{name} can't be read to its end: {error}; the lines before count"));
            }
        }
        Some(batch)
    }

    /// Returns the time of the first request, or 0 if the file has none.
    pub(super) fn first_us(&mut self) -> u64 {
        std::iter::from_fn(|| self.next()).find_map(|batch| Some(batch.requests.get(0)?.time_us)).unwrap_or(0)
    }

    pub(super) fn client_key(&self) -> &ClientKey {
        &self.lines.client_key
    }

    /// Returns whether the file is a trace, whose lines are in the order of the requests.
    pub(super) fn is_trace(&self) -> bool {
        self.lines.format.is_trace()
    }
}

/// Turns lines into requests.
struct LineParser {
    name: String,
    format: Format,
    client_key: ClientKey,
    group: Option<ClientKey>,
    cost: CostSource,
    filters: Filters,
    /// Values of the current line: first the fields of the key, then those of the group, of the cost, of the duration and of
    /// the filters.
    fields: Fields,
    first_of_group: usize,
    first_of_cost: usize,
    duration: Option<DurationSource>,
    first_of_duration: usize,
    first_of_filters: usize,
    /// Key and group of the current line.
    key: Vec<u8>,
    group_text: Vec<u8>,
}

impl LineParser {
    fn parse_block(&mut self, block: Block<'_>, header_len: usize, batch: &mut Batch) {
        if block.is_too_long {
            batch.lines += 1;
            self.add_malformed(block.first_line, block.bytes, "it is longer than 1 MiB", batch);
            return;
        }
        let header_lines = memchr::memchr_iter(b'\n', &block.bytes[..header_len]).count() as u64;
        let (mut number, mut from) = (block.first_line + header_lines, header_len);
        // A request takes about a hundred bytes of a log.
        batch.requests.reserve(block.bytes.len() / 96);
        while from < block.bytes.len() {
            let rest = &block.bytes[from..];
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest[..len].strip_suffix(b"\r").unwrap_or(&rest[..len]);
            if !line.is_empty() {
                batch.lines += 1;
                if let Err(why) = self.parse_line(line, batch) {
                    self.add_malformed(number, line, why, batch);
                }
            }
            (number, from) = (number + 1, from + len + 1);
        }
    }

    #[inline]
    fn parse_line(&mut self, line: &[u8], batch: &mut Batch) -> Result<(), &'static str> {
        self.fields.clear();
        let time_us = self.format.read(line, &mut self.fields)?;
        if !self.filters.is_empty()
            && !self.filters.keep(self.first_of_filters, line, &self.fields, &mut batch.filters_found)
        {
            batch.filtered += 1;
            return Ok(());
        }
        let cost = self.cost.of(self.first_of_cost, line, &self.fields)?;
        let (time_us, duration_us) = match &self.duration {
            None => (time_us, 0),
            Some(duration) => {
                let text = self.fields.get(self.first_of_duration, line).map(|text| (text, self.fields.unit));
                duration.start(time_us, text, &self.format)?
            }
        };
        self.key.clear();
        if !self.client_key.write(&mut self.key, line, &self.fields, 0) {
            batch.without_key += 1;
            return Ok(());
        }
        if Key::new(&self.key).is_err() {
            return Err("its key is longer than 1024 bytes");
        }
        self.group_text.clear();
        if let Some(group) = &self.group {
            if !group.write(&mut self.group_text, line, &self.fields, self.first_of_group) {
                self.group_text.clear();
            }
            self.group_text.truncate(GROUP_BYTES);
        }
        let (key, group) = (&self.key, &self.group_text);
        batch.requests.push(&Request { time_us, duration_us, key, cost, group, position: 0 });
        Ok(())
    }

    /// Returns whether durations are wanted, and no line of a sample has one.
    fn lacks_durations(&mut self, sample: &[u8]) -> bool {
        let mut lines = 0;
        for line in sample.split(|byte| *byte == b'\n') {
            self.fields.clear();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() && self.format.read(line, &mut self.fields).is_ok() {
                let text = self.fields.get(self.first_of_duration, line).map(|text| (text, self.fields.unit));
                if self.duration.as_ref().is_some_and(|duration| duration.start(0, text, &self.format).is_ok()) {
                    return false;
                }
                lines += 1;
            }
        }
        lines > 0
    }

    #[cold]
    fn add_malformed(&self, line: u64, text: &[u8], why: &str, batch: &mut Batch) {
        batch.malformed += 1;
        if batch.first_malformed.len() < SHOWN_MALFORMED {
            let text = String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES)]);
            let text = text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
            batch.first_malformed.push(MalformedLine { file: self.name.clone(), line, why: why.to_owned(), text });
        }
    }
}
