//! Serves one connection. The commands of one read are answered with one write before more is read.

use std::{
    future::{pending, poll_fn},
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::{Instant, Interval, MissedTickBehavior, interval_at, timeout, timeout_at},
};

use super::{batch::Batch, input::Input, reply::Replies, request::Ending, session::Session};
use crate::{
    config::Bounds,
    connections::{Stream, UnreadResponses},
    context::Context,
    metrics::Transport,
};

/// How long a stopping service continues to read commands.
const READ_ON: Duration = Duration::from_millis(250);

/// A stopping service stops reading earlier if no bytes arrive for this long.
const QUIET: Duration = Duration::from_millis(5);

/// Number of bytes that are written at once when the caller reads slowly. A caller that has read them counts as reading.
const CHUNK: usize = 32 << 10;

/// After that, the service waits until a caller that was sending closes the connection or has been silent for this
/// long.
const LINGER: Duration = Duration::from_secs(1);

/// Serves one connection to its end. When the service stops, it answers the commands that have arrived, and waits until
/// the caller has read the replies.
pub(crate) async fn serve(context: Context, stream: Stream, peer: SocketAddr) {
    let bounds = context.settings.bounds;
    let mut connection = Connection {
        input: Input::new(bounds.body),
        batch: Batch::default(),
        session: Session::new(peer, &context.settings.tokens),
        lingers: false,
        replies: Replies::default(),
        bounds,
        peer,
        stream,
        context,
    };
    if let Err(error) = connection.run().await {
        // Its replies are not counted any more, so they must not wait for a peer that does not read.
        tracing::debug!(%peer, %error, "a connection ended early");
        return;
    }
    let shut = timeout(bounds.header_timeout, connection.stream.shutdown()).await;
    if connection.lingers && matches!(shut, Ok(Ok(()))) {
        connection.discard().await;
    }
}

struct Connection {
    context: Context,
    stream: Stream,
    peer: SocketAddr,
    bounds: Bounds,
    input: Input,
    batch: Batch,
    session: Session,
    replies: Replies,
    /// Whether the caller may still be sending when the service closes the connection.
    lingers: bool,
}

/// Whether a connection continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Close,
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        // A child token, so that checking it takes no lock of other connections.
        let stop = self.context.stop.child_token();
        let mut stopping = pin!(stop.cancelled());
        let mut idle = IdleTimer::new(self.bounds.idle_timeout);
        // The time by which a caller must have sent a token, if it needs one.
        let mut token_by: Option<Instant> = None;
        // The time by which a command that has begun must be complete.
        let mut command_by: Option<Instant> = None;
        loop {
            let waiting = async {
                tokio::select! {
                    biased;
                    read = self.stream.read(self.input.room()) => Some(read),
                    () = stopping.as_mut() => None,
                    () = idle.expired() => Some(Ok(0)),
                }
            };
            token_by = match token_by {
                _ if !self.session.needs_token() => None,
                None => Some(Instant::now() + self.bounds.header_timeout),
                since => since,
            };
            let until = command_by.into_iter().chain(token_by).min();
            let read = match until {
                None => waiting.await,
                Some(until) => match timeout_at(until, waiting).await {
                    Ok(read) => read,
                    Err(_) => {
                        return Err(io::Error::new(
                            io::ErrorKind::TimedOut,
                            "a command was not complete in time, or no token was sent",
                        ));
                    }
                },
            };
            let Some(read) = read else { return self.finish().await };
            match read? {
                0 => return Ok(()),
                count => self.input.filled(count),
            }
            idle.reset();
            let (next, answered) = self.answer().await?;
            if next == Next::Close {
                return Ok(());
            }
            if self.input.is_empty() {
                self.batch.clear();
                command_by = None;
            } else if answered || command_by.is_none() {
                command_by = Some(Instant::now() + self.bounds.header_timeout);
            }
            if stop.is_cancelled() {
                self.lingers = true;
                return self.finish().await;
            }
        }
    }

    /// Answers all complete commands. Also returns whether there was one.
    async fn answer(&mut self) -> io::Result<(Next, bool)> {
        let mut answered = false;
        loop {
            let Self { context, batch, input, session, replies, .. } = self;
            let unread = &context.unread[Transport::Resp as usize];
            let (count, ending) = batch.read(input.bytes_mut(), self.bounds.body);
            answered |= !batch.is_empty();
            while !batch.is_answered() {
                batch.answer(input.bytes(), &context.service, &context.settings, session, replies).await;
                if let Some(delay) = session.delay {
                    tokio::time::sleep(delay).await;
                }
                if session.over || !batch.is_answered() {
                    send(&mut self.stream, replies, unread).await?;
                }
                if session.over {
                    context.service.metrics().refused[Transport::Resp].inc_by(replies.take_errors());
                    return Ok((Next::Close, true));
                }
            }
            input.done(count);
            if let Ending::Broken(reason) = &ending {
                replies.error(&format!("ERR Protocol error: {reason}"));
            }
            context.service.metrics().refused[Transport::Resp].inc_by(replies.take_errors());
            send(&mut self.stream, replies, unread).await?;
            match ending {
                Ending::Enough => {}
                Ending::Incomplete => return Ok((Next::Continue, answered)),
                Ending::Broken(_) => return Ok((Next::Close, answered)),
                Ending::Http => {
                    context.service.metrics().refused[Transport::Resp].inc();
                    tracing::warn!(peer = %self.peer, "a connection that uses HTTP is closed: this port is for RESP");
                    return Ok((Next::Close, answered));
                }
            }
        }
    }

    /// Answers the commands that have arrived when the service stops. If a caller sends without a pause, its commands
    /// are answered for a while; bytes that arrive after that are not read as commands.
    async fn finish(&mut self) -> io::Result<()> {
        self.lingers |= !self.input.is_empty();
        let until = Instant::now() + READ_ON;
        while Instant::now() < until {
            // Bytes that have arrived may not have been reported yet.
            let Ok(read) = timeout(QUIET, self.stream.read(self.input.room())).await else { break };
            let count = read?;
            if count == 0 {
                self.lingers = false;
                break;
            }
            self.lingers = true;
            self.input.filled(count);
            if self.answer().await?.0 == Next::Close {
                break;
            }
        }
        Ok(())
    }

    /// Reads until the caller closes the connection or is silent. A socket that is closed while it holds unread bytes
    /// is reset, and a reset destroys replies that are still on their way. A caller that never stops is disconnected
    /// when the drain time ends.
    async fn discard(&mut self) {
        let mut unwanted = [0; 4 << 10];
        while matches!(timeout(LINGER, self.stream.read(&mut unwanted)).await, Ok(Ok(1..))) {}
    }
}

/// Sends all replies, within the bounds of time and memory for unread replies.
async fn send(stream: &mut Stream, replies: &mut Replies, unread: &Arc<UnreadResponses>) -> io::Result<()> {
    let bytes = replies.bytes();
    if bytes.is_empty() {
        return Ok(());
    }
    // Nearly always all bytes are written at once, and nothing is unread.
    let (sent, flushed) = poll_fn(|cx| Poll::Ready(write_now(Pin::new(&mut *stream), cx, bytes))).await?;
    if sent < bytes.len() || !flushed {
        let reader = unread.reader();
        let reservation = reader
            .begin_waiting(bytes.len())
            .ok_or_else(|| io::Error::other("replies were not read, and the memory for unread replies is used up"))?;
        let charge = reservation.charge(0);
        let write_rest = async {
            for chunk in bytes[sent..].chunks(CHUNK) {
                stream.write_all(chunk).await?;
                charge.progressed();
            }
            stream.flush().await
        };
        tokio::select! {
            written = write_rest => written?,
            () = reader.stalls() => return Err(io::Error::new(io::ErrorKind::TimedOut, "replies were not read")),
        }
    }
    replies.clear();
    Ok(())
}

/// Writes without waiting. Returns the number of bytes, and whether all buffers are flushed.
fn write_now(mut stream: Pin<&mut Stream>, cx: &mut task::Context<'_>, bytes: &[u8]) -> io::Result<(usize, bool)> {
    let Poll::Ready(sent) = stream.as_mut().poll_write(cx, bytes) else { return Ok((0, false)) };
    match (sent?, stream.poll_flush(cx)) {
        (sent, Poll::Ready(flushed)) => flushed.map(|()| (sent, true)),
        (sent, Poll::Pending) => Ok((sent, false)),
    }
}

/// Measures how long a connection is idle, in quarters of the timeout, so that commands need no timer of their own. Without a
/// timeout, it never expires.
struct IdleTimer {
    quarters: Option<Interval>,
    passed: u32,
}

impl IdleTimer {
    fn new(timeout: Option<Duration>) -> Self {
        let quarters = timeout.map(|timeout| {
            let quarter = (timeout / 4).max(Duration::from_millis(1));
            let mut quarters = interval_at(Instant::now() + quarter, quarter);
            quarters.set_missed_tick_behavior(MissedTickBehavior::Delay);
            quarters
        });
        Self { quarters, passed: 0 }
    }

    /// Starts again after input.
    fn reset(&mut self) {
        self.passed = 0;
    }

    /// Waits until the connection has been idle for the timeout. The first quarter may have begun before that.
    async fn expired(&mut self) {
        let Some(quarters) = &mut self.quarters else { return pending().await };
        while self.passed <= 4 {
            quarters.tick().await;
            self.passed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::IdleTimer;

    /// Uses tokio's paused time, which advances without waiting.
    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_only_if_a_timeout_is_set() {
        let year = Duration::from_secs(366 * 86_400);
        assert!(timeout(year, IdleTimer::new(None).expired()).await.is_err(), "`off` never expires");
        let mut idle = IdleTimer::new(Some(Duration::from_secs(300)));
        assert!(timeout(Duration::from_secs(299), idle.expired()).await.is_err());
        idle.reset();
        assert!(timeout(Duration::from_secs(299), idle.expired()).await.is_err(), "it starts again with each command");
        assert!(timeout(Duration::from_secs(300), idle.expired()).await.is_ok());
    }
}
