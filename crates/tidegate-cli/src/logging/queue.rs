//! [`Queue`]: log lines on their way to standard error. The queue is bounded: if it is full, a line is dropped and
//! counted.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use tidegate_server::LOG_LINES;

use super::repeats::Repeats;

/// Maximum number of lines in the queue.
const MAX_LINES: usize = 1024;

/// Maximum number of bytes in the queue.
const MAX_BYTES: usize = 1 << 20;

/// How often suppressed lines are checked while there is nothing to write.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long the process waits for the last lines to be written when it ends.
const LAST_LINES: Duration = Duration::from_millis(500);

/// The sending side of the queue.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    items: SyncSender<QueueItem>,
    bytes: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum QueueItem {
    Line(Vec<u8>),
    /// Answered once all earlier lines are written.
    Flush(SyncSender<()>),
}

impl Queue {
    /// Starts the thread that writes the lines.
    pub(super) fn start(repeats: Arc<Repeats>) -> io::Result<Self> {
        let (items, waiting) = sync_channel(MAX_LINES);
        let bytes = Arc::new(AtomicUsize::new(0));
        // The thread writes through its own descriptor, so that other writers to standard error never wait for its
        // lock.
        let out = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let counted = Arc::clone(&bytes);
        thread::Builder::new().name("log".to_owned()).spawn(move || write(&waiting, &counted, out, &repeats))?;
        Ok(Self { items, bytes })
    }

    fn push(&self, line: &[u8]) {
        let before = self.bytes.fetch_add(line.len(), Relaxed);
        if before + line.len() > MAX_BYTES || self.items.try_send(QueueItem::Line(line.to_vec())).is_err() {
            self.bytes.fetch_sub(line.len(), Relaxed);
            LOG_LINES.dropped();
        }
    }

    /// Waits until all lines are written, but only for a short time.
    pub(super) fn wait(&self) {
        let (done, written) = sync_channel(1);
        if self.items.try_send(QueueItem::Flush(done)).is_ok() {
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}

fn write(waiting: &Receiver<QueueItem>, bytes: &AtomicUsize, mut out: impl Write, repeats: &Repeats) {
    loop {
        match waiting.recv_timeout(CHECK_INTERVAL) {
            Ok(QueueItem::Line(line)) => {
                bytes.fetch_sub(line.len(), Relaxed);
                if out.write_all(&line).is_err() {
                    LOG_LINES.dropped();
                }
            }
            Ok(QueueItem::Flush(done)) => {
                let _ = done.try_send(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        repeats.report_when_due();
    }
}

/// Each write is one line.
impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
