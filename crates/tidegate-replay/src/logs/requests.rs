//! [`Requests`]: all inputs as one stream, by time.
//!
//! Each input is read and parsed by a thread of its own, which is a few blocks ahead and no more. An input is opened when its first
//! request is due, so that a year of rotated logs is not open at once.

use std::{
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
    By, FormatChoice, Input, LogError, Price, Request,
    parser::{Batch, Parser},
    sorting::Sorting,
    spread::Spread,
};
use crate::findings;

/// How many batches a thread may be ahead.
const AHEAD: usize = 4;

/// How many malformed lines are shown in all.
const SHOWN: usize = 5;

/// What to read, and how.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Where lines come from.
    pub inputs: Vec<Input>,
    /// How they are laid out.
    pub format: FormatChoice,
    /// Who is one client; the address if unsaid, or the key of a trace.
    pub by: Option<By>,
    /// What requests cost; 1 if unsaid, or what the trace says.
    pub price: Option<Price>,
    /// How late a request may be logged to be put where it belongs; not at all if unsaid.
    pub sort: Option<Duration>,
    /// Whether to spread requests within their seconds, and the seed for it.
    pub spread: Option<u64>,
}

/// How far reading has come, for whoever waits; and a way to end it.
#[derive(Debug, Default)]
pub struct Progress {
    read: Arc<AtomicU64>,
    lines: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Bytes read, before they are uncompressed.
    pub fn bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Lines done.
    pub fn lines(&self) -> u64 {
        self.lines.load(Ordering::Relaxed)
    }

    /// What ends the reading soon when it is set; what was read so far counts.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether it was ended.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// The requests of all inputs.
pub struct Requests {
    reading: Reading,
    by: By,
    progress: Arc<Progress>,
    /// Inputs that are not open yet, the one that is due next last.
    waiting: Vec<Waiting>,
    open: Vec<Open>,
}

/// An input, and when its first request is.
struct Waiting {
    first_us: u64,
    input: usize,
    /// Kept if it can't be opened again.
    parser: Option<Parser>,
}

/// An input under way.
struct Open {
    input: usize,
    batches: Receiver<Batch>,
    batch: Batch,
    at: usize,
}

impl Open {
    /// Its next request's time, and its place among inputs of the same time.
    fn head(&self) -> Option<(u64, usize)> {
        self.batch.get(self.at).map(|request| (request.time_us, self.input))
    }
}

impl Requests {
    /// Looks at the beginning of every input.
    ///
    /// # Errors
    /// If one can't be opened, or has not the fields that are wanted.
    pub fn open(reading: Reading, progress: Arc<Progress>) -> Result<Self, LogError> {
        if reading.inputs.iter().filter(|input| **input == Input::Stdin).count() > 1 {
            return Err(LogError::StdinTwice);
        }
        let mut by = None;
        let mut waiting = Vec::new();
        for (number, input) in reading.inputs.iter().enumerate() {
            // Pipes can be read once only.
            let is_kept = reading.inputs.len() == 1 || input.bytes().is_none();
            let read = if is_kept { Arc::clone(&progress.read) } else { Arc::default() };
            let mut parser = Parser::open(input, &reading, read)?;
            by.get_or_insert_with(|| parser.by().clone());
            let first_us = if is_kept { 0 } else { parser.first_us() };
            waiting.push(Waiting { first_us, input: number, parser: is_kept.then_some(parser) });
        }
        waiting.sort_by_key(|waiting| std::cmp::Reverse((waiting.first_us, waiting.input)));
        let by = by.or_else(|| reading.by.clone()).unwrap_or_else(By::ip);
        Ok(Self { reading, by, progress, waiting, open: Vec::new() })
    }

    /// Who is counted as one client.
    pub fn by(&self) -> &By {
        &self.by
    }

    /// How far reading has come.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Hands out all requests in the order of their times; those of one input in the order that they were logged in. What was read
    /// is told at the end, which comes early if `each` breaks or the progress is stopped.
    pub fn for_each(mut self, mut each: impl FnMut(&Request<'_>) -> ControlFlow<()>) -> findings::Input {
        let mut spread = self.reading.spread.map(Spread::new);
        let mut found = findings::Input {
            files: self.reading.inputs.iter().map(Input::name).collect(),
            whole_seconds: true,
            spread: spread.is_some(),
            sorted: self.reading.sort.is_some(),
            ..findings::Input::default()
        };
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let mut sorting = self.reading.sort.map(|span| Sorting::new(micros(span)));
        let mut spreading = |request: &Request<'_>| match &mut spread {
            Some(spread) => spread.take(request, &mut each),
            None => each(request),
        };
        let mut flow = self.run(&mut found, &mut |request| match &mut sorting {
            Some(sorting) => sorting.take(request, &mut spreading),
            None => spreading(request),
        });
        if let (Some(sorting), ControlFlow::Continue(())) = (&mut sorting, flow) {
            flow = sorting.hand_out(u64::MAX, &mut spreading);
        }
        if let (Some(spread), ControlFlow::Continue(())) = (&mut spread, flow) {
            let _ = spread.hand_out(&mut each);
        }
        found.whole_seconds &= found.requests > 0;
        found.still_late = sorting.map_or(found.out_of_order, |sorting| sorting.still_late);
        found
    }

    fn run(
        &mut self,
        found: &mut findings::Input,
        each: &mut impl FnMut(&Request<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut latest = 0;
        while self.have_heads(found) {
            // The input whose next request is the earliest goes on until another's is.
            let heads = self.open.iter().enumerate().filter_map(|(at, open)| Some((open.head()?, at)));
            let Some(((_, input), next)) = heads.clone().min() else { break };
            let others = heads.filter(|(_, at)| *at != next).map(|(head, _)| head);
            let due = self.waiting.last().map(|waiting| (waiting.first_us, waiting.input));
            let until = others.chain(due).min().unwrap_or((u64::MAX, usize::MAX));
            let Open { batch, at, .. } = &mut self.open[next];
            while let Some(request) = batch.get(*at).filter(|request| (request.time_us, input) < until) {
                *at += 1;
                found.requests += 1;
                found.units = found.units.saturating_add(request.cost);
                found.whole_seconds &= request.time_us.is_multiple_of(1_000_000);
                found.from_us = Some(found.from_us.map_or(request.time_us, |from| from.min(request.time_us)));
                if request.time_us < latest {
                    found.out_of_order += 1;
                    found.latest_by_us = found.latest_by_us.max(latest - request.time_us);
                } else {
                    latest = request.time_us;
                }
                found.to_us = Some(latest);
                each(&request)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Sees to it that every input that is due has a request to show; `false` if there are no more, or nobody wants more.
    fn have_heads(&mut self, found: &mut findings::Input) -> bool {
        loop {
            let mut at = 0;
            while at < self.open.len() {
                if self.open[at].head().is_some() {
                    at += 1;
                    continue;
                }
                match self.receive(at) {
                    Some(batch) => {
                        note(&batch, found);
                        self.progress.lines.fetch_add(batch.lines, Ordering::Relaxed);
                        (self.open[at].batch, self.open[at].at) = (batch, 0);
                    }
                    None if self.progress.is_stopped() => return false,
                    None => drop(self.open.remove(at)),
                }
            }
            let first = self.open.iter().filter_map(Open::head).min();
            match self.waiting.pop_if(|waiting| first.is_none_or(|first| (waiting.first_us, waiting.input) < first)) {
                Some(waiting) => self.begin(waiting, found),
                None => return first.is_some() && !self.progress.is_stopped(),
            }
        }
    }

    /// The next batch of an input; `None` after the last one, and if nobody wants more.
    fn receive(&self, at: usize) -> Option<Batch> {
        while !self.progress.is_stopped() {
            match self.open[at].batches.recv_timeout(Duration::from_millis(50)) {
                Ok(batch) => return Some(batch),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }

    /// Has an input read by a thread of its own.
    fn begin(&mut self, waiting: Waiting, found: &mut findings::Input) {
        let Waiting { input, parser, .. } = waiting;
        let opened = match parser {
            Some(parser) => Ok(parser),
            None => Parser::open(&self.reading.inputs[input], &self.reading, Arc::clone(&self.progress.read)),
        };
        let mut parser = match opened {
            Ok(parser) => parser,
            // It was there a moment ago.
            Err(error) => return found.troubles.push(error.to_string()),
        };
        let (sender, batches) = sync_channel(AHEAD);
        thread::spawn(move || while parser.next().is_some_and(|batch| sender.send(batch).is_ok()) {});
        self.open.push(Open { input, batches, batch: Batch::default(), at: 0 });
    }
}

fn note(batch: &Batch, found: &mut findings::Input) {
    found.lines += batch.lines;
    found.malformed += batch.malformed;
    found.without_key += batch.without_key;
    found.troubles.extend(batch.trouble.clone());
    let room = SHOWN.saturating_sub(found.first_malformed.len());
    found.first_malformed.extend(batch.first_malformed.iter().take(room).cloned());
}
