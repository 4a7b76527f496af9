//! [`LogReader`]: merges the requests of all log files by time.
//!
//! A separate thread reads and parses each file, at most a few blocks ahead. A file is opened when its first request is due, so
//! that a year of rotated logs is not open at once.

use std::{
    cmp::Reverse,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    thread,
    time::Duration,
};

use super::{
    ClientKey, CostSource, DurationSource, Each, Filters, FormatChoice, InputSummary, LogError, LogSource, Request,
    parser::{Batch, Parser},
    sort_buffer::{MAX_HELD, SortBuffer},
    spreader::Spreader,
    summary::SHOWN_MALFORMED,
};
use crate::micros;

/// Number of batches that a parser thread may be ahead.
const AHEAD: usize = 4;

/// Largest delay of a late line that is sorted by default.
pub const DEFAULT_SORT: Duration = Duration::from_secs(300);

/// What to read, and how.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Files to read.
    pub sources: Vec<LogSource>,
    /// Format of the lines.
    pub format: FormatChoice,
    /// Key that identifies a client. By default the address, or the key of a trace.
    pub client_key: Option<ClientKey>,
    /// Cost of a request. By default 1, or the cost in a trace.
    pub cost: Option<CostSource>,
    /// Duration of a request. By default durations are not read. If they are, every line must have one, and the time of a request
    /// is its start.
    pub duration: Option<DurationSource>,
    /// Group of a request. By default there are no groups.
    pub group: Option<ClientKey>,
    /// Lines to read. By default all.
    pub filters: Filters,
    /// Largest delay of a late request that is sorted. Zero disables sorting. By default [`DEFAULT_SORT`], and zero if all files are
    /// traces, because a trace states the order of its requests.
    pub sort: Option<Duration>,
    /// Seed for spreading requests within their second. By default requests are not spread.
    pub spread: Option<u64>,
}

/// Progress of a reader, and a flag that stops it.
#[derive(Debug, Default)]
pub struct Progress {
    read: Arc<AtomicU64>,
    lines: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Returns the number of bytes read, before decompression.
    pub fn bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the number of lines processed.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// Returns the flag that stops the reader. The requests read so far count.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Returns whether the reader was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// Reader of the requests of all log files.
pub struct LogReader {
    options: ReadOptions,
    client_key: ClientKey,
    sort: Duration,
    progress: Arc<Progress>,
    /// Files that are not open yet. The last one is due next.
    pending: Vec<PendingFile>,
    active: Vec<ActiveFile>,
}

/// A file that is not open yet.
struct PendingFile {
    /// Time of its first request.
    first_us: u64,
    number: usize,
    /// The open parser of a source that can't be opened twice.
    parser: Option<Parser>,
}

/// A file that is being read.
struct ActiveFile {
    number: usize,
    batches: Receiver<Batch>,
    batch: Batch,
    next: usize,
}

impl ActiveFile {
    /// Returns the time of the next request, and the file's number as a tie-breaker.
    fn head(&self) -> Option<(u64, usize)> {
        self.batch.requests.get(self.next).map(|request| (request.time_us, self.number))
    }
}

impl LogReader {
    /// Opens every file and reads its first block.
    ///
    /// # Errors
    /// If a file can't be opened, or lacks a required field.
    pub fn open(options: ReadOptions, progress: Arc<Progress>) -> Result<Self, LogError> {
        if options.sources.iter().filter(|source| **source == LogSource::Stdin).count() > 1 {
            return Err(LogError::StdinTwice);
        }
        let mut client_key = None;
        let mut is_trace = true;
        let mut pending = Vec::new();
        for (number, source) in options.sources.iter().enumerate() {
            // A pipe can be read only once.
            let is_kept = options.sources.len() == 1 || source.bytes().is_none();
            let read = if is_kept { Arc::clone(&progress.read) } else { Arc::default() };
            let mut parser = Parser::open(source, &options, read)?;
            client_key.get_or_insert_with(|| parser.client_key().clone());
            is_trace &= parser.is_trace();
            let first_us = if is_kept { 0 } else { parser.first_us() };
            pending.push(PendingFile { first_us, number, parser: is_kept.then_some(parser) });
        }
        pending.sort_by_key(|file| Reverse((file.first_us, file.number)));
        let client_key = client_key.or_else(|| options.client_key.clone()).unwrap_or_else(ClientKey::ip);
        let sort = options.sort.unwrap_or(if is_trace { Duration::ZERO } else { DEFAULT_SORT });
        Ok(Self { options, client_key, sort, progress, pending, active: Vec::new() })
    }

    /// Returns the key that identifies a client.
    pub fn client_key(&self) -> &ClientKey {
        &self.client_key
    }

    /// Returns whether the durations of requests are read.
    pub fn has_durations(&self) -> bool {
        self.options.duration.is_some()
    }

    /// Returns the field by which requests are grouped.
    pub fn group(&self) -> Option<&ClientKey> {
        self.options.group.as_ref()
    }

    /// Returns the progress of this reader.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Calls `each` with every request in order of time. Requests that are later than the sorting allows, and requests with equal times,
    /// stay in the order of the file. Ends early if `each` breaks or the progress is stopped.
    pub fn for_each(mut self, mut each: impl FnMut(&Request<'_>) -> ControlFlow<()>) -> InputSummary {
        let mut spreader = self.options.spread.map(Spreader::new);
        let mut summary = InputSummary {
            files: self.options.sources.iter().map(LogSource::name).collect(),
            filters: self.options.filters.texts(),
            whole_seconds: true,
            spread: spreader.is_some(),
            sorted: !self.sort.is_zero(),
            sort_us: micros(self.sort),
            ..InputSummary::default()
        };
        let mut sort_buffer = SortBuffer::new(micros(self.sort), MAX_HELD);
        let mut spread = |request: &Request<'_>| match &mut spreader {
            Some(spreader) => spreader.push(request, &mut each),
            None => each(request),
        };
        let mut found = 0;
        let mut flow = self.merge(&mut summary, &mut found, &mut |request| sort_buffer.push(request, &mut spread));
        if flow.is_continue() {
            flow = sort_buffer.release(u64::MAX, &mut spread);
        }
        if let (Some(spreader), ControlFlow::Continue(())) = (&mut spreader, flow) {
            let _ = spreader.flush(&mut each);
        }
        summary.whole_seconds &= summary.requests > 0;
        summary.still_late = sort_buffer.still_late;
        summary.filters_without_field =
            if summary.lines > summary.malformed { self.options.filters.without_field(found) } else { Vec::new() };
        summary
    }

    /// Merges all files. Sets the bits of the filters whose field some line has.
    fn merge(&mut self, summary: &mut InputSummary, found: &mut u64, each: &mut Each<'_>) -> ControlFlow<()> {
        let mut latest = 0;
        while self.fill_heads(summary, found) {
            // The file with the earliest request continues until another file is earlier.
            let heads = self.active.iter().enumerate().filter_map(|(index, file)| Some((file.head()?, index)));
            let Some(((_, number), index)) = heads.clone().min() else { break };
            let others = heads.filter(|(_, other)| *other != index).map(|(head, _)| head);
            let due = self.pending.last().map(|file| (file.first_us, file.number));
            let until = others.chain(due).min().unwrap_or((u64::MAX, usize::MAX));
            let ActiveFile { batch, next, .. } = &mut self.active[index];
            while let Some(request) = batch.requests.get(*next).filter(|request| (request.time_us, number) < until) {
                *next += 1;
                let request = Request { position: summary.requests, ..request };
                summary.requests += 1;
                summary.units = summary.units.saturating_add(request.cost);
                summary.whole_seconds &= request.time_us.is_multiple_of(1_000_000);
                summary.from_us = Some(summary.from_us.map_or(request.time_us, |from| from.min(request.time_us)));
                if request.time_us < latest {
                    summary.out_of_order += 1;
                    summary.latest_by_us = summary.latest_by_us.max(latest - request.time_us);
                } else {
                    latest = request.time_us;
                }
                summary.to_us = Some(latest);
                each(&request)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Makes sure that every file that is due has a next request. Returns `false` at the end, and if the progress is stopped.
    fn fill_heads(&mut self, summary: &mut InputSummary, found: &mut u64) -> bool {
        loop {
            let mut index = 0;
            while index < self.active.len() {
                if self.active[index].head().is_some() {
                    index += 1;
                    continue;
                }
                match self.receive(index) {
                    Some(batch) => {
                        add(&batch, summary);
                        *found |= batch.filters_found;
                        self.progress.lines.fetch_add(batch.lines, Ordering::Relaxed);
                        (self.active[index].batch, self.active[index].next) = (batch, 0);
                    }
                    None if self.progress.is_stopped() => return false,
                    None => drop(self.active.remove(index)),
                }
            }
            let first = self.active.iter().filter_map(ActiveFile::head).min();
            match self.pending.pop_if(|file| first.is_none_or(|first| (file.first_us, file.number) < first)) {
                Some(file) => self.start(file, summary),
                None => return first.is_some() && !self.progress.is_stopped(),
            }
        }
    }

    /// Returns the next batch of a file. Returns `None` at its end, and if the progress is stopped.
    fn receive(&self, index: usize) -> Option<Batch> {
        while !self.progress.is_stopped() {
            match self.active[index].batches.recv_timeout(Duration::from_millis(50)) {
                Ok(batch) => return Some(batch),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }

    /// Starts the thread that parses a file.
    fn start(&mut self, PendingFile { number, parser, .. }: PendingFile, summary: &mut InputSummary) {
        let opened = parser.map_or_else(
            || Parser::open(&self.options.sources[number], &self.options, Arc::clone(&self.progress.read)),
            Ok,
        );
        let mut parser = match opened {
            Ok(parser) => parser,
            // The file has disappeared since it was opened the first time.
            Err(error) => return summary.troubles.push(error.to_string()),
        };
        let (sender, batches) = sync_channel(AHEAD);
        thread::spawn(move || while parser.next().is_some_and(|batch| sender.send(batch).is_ok()) {});
        self.active.push(ActiveFile { number, batches, batch: Batch::default(), next: 0 });
    }
}

fn add(batch: &Batch, summary: &mut InputSummary) {
    summary.lines += batch.lines;
    summary.malformed += batch.malformed;
    summary.without_key += batch.without_key;
    summary.filtered += batch.filtered;
    summary.troubles.extend(batch.error.clone());
    let room = SHOWN_MALFORMED.saturating_sub(summary.first_malformed.len());
    summary.first_malformed.extend(batch.first_malformed.iter().take(room).cloned());
}
