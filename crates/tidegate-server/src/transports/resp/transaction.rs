//! [`Transaction`]: MULTI … EXEC, as client libraries use it. Commands are validated and queued, and EXEC runs them.
//! After an error while queueing, EXEC runs none of them.
//!
//! Unlike in Redis, a transaction is not atomic: its commands run in order, each as a decision of its own, and commands
//! of other connections may run in between. WATCH has no effect. `TG.CHECKALL` makes one decision over several keys.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{
    command::argument,
    commands::Verb,
    reply::Replies,
    request::{Args, Requests},
};

/// Maximum number of commands in one transaction.
const MAX_COMMANDS: usize = 10_000;

/// Maximum number of bytes that one transaction may hold, and all transactions of the process together.
const MAX_BYTES: usize = 1 << 20;
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// A transaction of at most this many bytes always has room, so that large ones that are never finished can't keep
/// others from using MULTI.
const ALWAYS: usize = 4 << 10;

/// Bytes that a queued command and each of its arguments take, in addition to the bytes of the arguments.
const BYTES_PER_COMMAND: usize = 8;
const BYTES_PER_ARGUMENT: usize = 16;

static TOTAL_BYTES: AtomicUsize = AtomicUsize::new(0);

const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";

/// The transaction of a connection, if one has begun.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// Commands that wait for EXEC.
    pub(super) open: Option<Box<Queue>>,
    /// Commands that EXEC runs.
    pub(super) running: Option<Box<Running>>,
}

/// Queued commands.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) bytes: Vec<u8>,
    pub(super) requests: Requests,
    /// The bytes of this queue that are counted in [`TOTAL_BYTES`].
    counted: usize,
    aborted: bool,
}

/// Commands that EXEC runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) queue: Queue,
    /// Index of the next command.
    pub(super) next: usize,
    /// Whether the caller wants the reply.
    pub(super) is_reply_wanted: bool,
}

impl Transaction {
    /// Aborts the transaction because a command was refused: EXEC will run nothing.
    pub(super) fn abort(&mut self) {
        if let Some(queue) = &mut self.open {
            **queue = Queue::default();
            queue.aborted = true;
        }
    }

    /// Answers a valid command that controls the transaction or is queued in it. Returns false for any other command,
    /// which the caller answers at once.
    pub(super) fn answer(&mut self, verb: Verb, args: Args<'_>, out: &mut Replies) -> bool {
        match (verb, &mut self.open) {
            (Verb::Multi, Some(_)) => out.error("ERR MULTI calls can not be nested"),
            (Verb::Multi, open) => {
                *open = Some(Box::default());
                out.ok();
            }
            (Verb::Exec, _) => self.exec(out),
            (Verb::Discard, None) => out.error("ERR DISCARD without MULTI"),
            (Verb::Discard, open) => {
                *open = None;
                out.ok();
            }
            (Verb::Watch, Some(_)) => out.error("ERR WATCH inside MULTI is not allowed"),
            (Verb::Watch | Verb::Unwatch, None) => out.ok(),
            (Verb::Reset, open) => {
                *open = None;
                return false;
            }
            (Verb::Quit, _) | (_, None) => return false,
            (Verb::Client, Some(_)) if argument(args, 1).eq_ignore_ascii_case(b"REPLY") => {
                // It would suppress replies that are part of the array of EXEC.
                self.abort();
                out.error("ERR CLIENT REPLY inside MULTI is not allowed");
            }
            (_, Some(queue)) => match queue.push(args) {
                Ok(()) => out.simple("QUEUED"),
                Err(error) => {
                    self.abort();
                    out.error(&error);
                }
            },
        }
        true
    }

    fn exec(&mut self, out: &mut Replies) {
        match self.open.take() {
            None => out.error("ERR EXEC without MULTI"),
            Some(queue) if queue.aborted => out.error(ABORTED),
            Some(queue) => {
                out.array(queue.requests.len());
                self.running = Some(Box::new(Running { queue: *queue, next: 0, is_reply_wanted: true }));
            }
        }
    }
}

impl Queue {
    fn push(&mut self, args: Args<'_>) -> Result<(), String> {
        // An aborted transaction keeps no commands.
        if self.aborted {
            return Ok(());
        }
        let bytes: usize = args.iter().map(|argument| argument.len() + BYTES_PER_ARGUMENT).sum();
        let bytes = bytes + BYTES_PER_COMMAND;
        if self.requests.len() == MAX_COMMANDS || self.counted + bytes > MAX_BYTES {
            return Err(format!(
                "ERR a transaction may have at most {MAX_COMMANDS} commands and {MAX_BYTES} bytes: use several transactions, or a pipeline without MULTI"
            ));
        }
        if TOTAL_BYTES.fetch_add(bytes, Relaxed) + bytes > MAX_TOTAL_BYTES && self.counted + bytes > ALWAYS {
            TOTAL_BYTES.fetch_sub(bytes, Relaxed);
            return Err("ERR too many transactions are open: use a pipeline without MULTI".to_owned());
        }
        self.counted += bytes;
        self.requests.push(args, &mut self.bytes);
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        TOTAL_BYTES.fetch_sub(self.counted, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, MAX_TOTAL_BYTES, Queue, Requests, TOTAL_BYTES};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn the_memory_of_all_transactions_is_bounded_and_released() {
        let mut input = format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{}\r\n", "x".repeat(60_000)).into_bytes();
        let mut requests = Requests::default();
        requests.read(&mut input, 64 << 10);
        let args = requests.get(&input, 0);
        let mut queues: Vec<Queue> = Vec::new();
        let error = loop {
            let mut queue = Queue::default();
            let full = loop {
                if let Err(error) = queue.push(args) {
                    break error;
                }
            };
            queues.push(queue);
            if full.contains("too many transactions") {
                break full;
            }
        };
        assert!(error.starts_with("ERR "));
        let total = TOTAL_BYTES.load(Relaxed);
        assert!(total <= MAX_TOTAL_BYTES && total > MAX_TOTAL_BYTES - MAX_BYTES, "{total}");
        let mut line = b"ECHO small\r\n".to_vec();
        let mut few = Requests::default();
        few.read(&mut line, 64 << 10);
        let mut small = Queue::default();
        small.push(few.get(&line, 0)).expect("a small transaction always has room");
        assert!(small.push(args).is_err(), "a large one does not");
        drop(small);
        drop(queues);
        assert_eq!(TOTAL_BYTES.load(Relaxed), 0);
    }
}
