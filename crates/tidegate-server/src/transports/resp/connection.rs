//! One connection, from its first byte to its last: what was read is answered before more is read, with one write.

use std::{
    future::{pending, poll_fn},
    io,
    net::SocketAddr,
    pin::Pin,
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::{Instant, Interval, MissedTickBehavior, interval_at, timeout, timeout_at},
};

use super::{batch::Batch, input::Input, reply::Replies, request::Ending, session::Session};
use crate::{
    config::Bounds,
    door::{House, Stream},
    metrics::Transport,
    unread::UnreadResponses,
};

/// How long a stopping service continues to read commands, and after how much silence it stops reading earlier.
const READ_ON: Duration = Duration::from_millis(250);
const SILENCE: Duration = Duration::from_millis(5);

/// How often a write that is stuck is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A caller that has read so many bytes more has the whole write timeout again.
const PROGRESS: usize = 32 << 10;

/// After that, the service waits until a caller that was sending closes the connection or has been silent for this
/// long.
const LINGER: Duration = Duration::from_secs(1);

/// Serves one connection to its end. When the service stops, it answers the commands that have arrived, and waits until
/// the caller has read the replies.
pub(crate) async fn serve(house: House, stream: Stream, peer: SocketAddr) {
    let bounds = house.settings.bounds;
    let mut connection = Connection {
        input: Input::new(bounds.body),
        batch: Batch::default(),
        session: Session::new(peer, &house.settings.tokens),
        lingers: false,
        replies: Replies::default(),
        bounds,
        peer,
        stream,
        house,
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
    house: House,
    stream: Stream,
    peer: SocketAddr,
    bounds: Bounds,
    input: Input,
    batch: Batch,
    session: Session,
    replies: Replies,
    /// Whether the caller may still be sending when the service ends the connection.
    lingers: bool,
}

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Close,
}

impl Connection {
    async fn run(&mut self) -> io::Result<()> {
        // Its own, so that looking at it needs no lock that others hold.
        let stop = self.house.stop.child_token();
        let mut stopping = pin!(stop.cancelled());
        let mut silence = Silence::new(self.bounds.idle_timeout);
        // Until when a caller must have shown a token, if it needs one.
        let mut token_by: Option<Instant> = None;
        // Until when a command that has begun must be there as a whole.
        let mut patience: Option<Instant> = None;
        loop {
            let waiting = async {
                tokio::select! {
                    biased;
                    read = self.stream.read(self.input.room()) => Some(read),
                    () = stopping.as_mut() => None,
                    () = silence.lasts() => Some(Ok(0)),
                }
            };
            token_by = match token_by {
                _ if !self.session.needs_token() => None,
                None => Some(Instant::now() + self.bounds.header_timeout),
                since => since,
            };
            let until = patience.into_iter().chain(token_by).min();
            let read = match until {
                None => waiting.await,
                Some(until) => match timeout_at(until, waiting).await {
                    Ok(read) => read,
                    Err(_) => {
                        return Err(io::Error::new(
                            io::ErrorKind::TimedOut,
                            "a command was not finished in time, or no token was shown",
                        ));
                    }
                },
            };
            let Some(read) = read else { return self.finish().await };
            match read? {
                0 => return Ok(()),
                count => self.input.filled(count),
            }
            silence.broken();
            let (next, answered) = self.answer().await?;
            if next == Next::Close {
                return Ok(());
            }
            if self.input.is_empty() {
                self.batch.rest();
                patience = None;
            } else if answered || patience.is_none() {
                patience = Some(Instant::now() + self.bounds.header_timeout);
            }
            if stop.is_cancelled() {
                self.lingers = true;
                return self.finish().await;
            }
        }
    }

    /// Answers all commands that are there as a whole; whether there was one.
    async fn answer(&mut self) -> io::Result<(Next, bool)> {
        let mut answered = false;
        loop {
            let Self { house, batch, input, session, replies, .. } = self;
            let unread = &house.unread[Transport::Resp as usize];
            let (count, ending) = batch.read(input.bytes_mut(), self.bounds.body);
            answered |= !batch.is_empty();
            while !batch.is_answered() {
                batch.answer(input.bytes(), &house.service, &house.settings, session, replies).await;
                if let Some(delay) = session.delay {
                    tokio::time::sleep(delay).await;
                }
                if session.over || !batch.is_answered() {
                    send(&mut self.stream, replies, unread).await?;
                }
                if session.over {
                    return Ok((Next::Close, true));
                }
            }
            input.done(count);
            if let Ending::Broken(reason) = &ending {
                house.service.metrics().refused(Transport::Resp);
                replies.error(&format!("ERR Protocol error: {reason}"));
            }
            send(&mut self.stream, replies, unread).await?;
            match ending {
                Ending::Enough => {}
                Ending::Incomplete => return Ok((Next::GoOn, answered)),
                Ending::Broken(_) => return Ok((Next::Close, answered)),
                Ending::Http => {
                    house.service.metrics().refused(Transport::Resp);
                    tracing::warn!(peer = %self.peer, "a connection that speaks HTTP is closed: this is the port for RESP");
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
            // What lies in the socket may not have been noticed yet.
            let Ok(read) = timeout(SILENCE, self.stream.read(self.input.room())).await else { break };
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
async fn send(stream: &mut Stream, replies: &mut Replies, unread: &UnreadResponses) -> io::Result<()> {
    let bytes = replies.bytes();
    if bytes.is_empty() {
        return Ok(());
    }
    // Nearly always all of it goes at once, and no timer is needed.
    let (mut sent, flushed) = poll_fn(|cx| Poll::Ready(write_now(Pin::new(&mut *stream), cx, bytes))).await?;
    if sent < bytes.len() || !flushed {
        let _held = unread
            .hold(bytes.len())
            .ok_or_else(|| io::Error::other("replies were not read, and the memory for unread replies is used up"))?;
        let (mut waited, mut read_before) = (Duration::ZERO, sent);
        loop {
            // Waits in small steps, because the patience depends on the memory that other connections hold meanwhile.
            let step = unread.patience().min(LOOK_AGAIN);
            let written = async {
                if sent < bytes.len() { stream.write(&bytes[sent..]).await } else { stream.flush().await.map(|()| 0) }
            };
            match timeout(step, written).await {
                Ok(Ok(0)) if sent == bytes.len() => break,
                Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count?,
                Err(_) => waited += step,
            }
            if sent - read_before >= PROGRESS {
                (waited, read_before) = (Duration::ZERO, sent);
            }
            if waited >= unread.patience() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "replies were not read"));
            }
        }
    }
    replies.clear();
    Ok(())
}

/// Writes what can be written without waiting; how much that was, and whether all of it has left this process.
fn write_now(mut stream: Pin<&mut Stream>, cx: &mut Context<'_>, bytes: &[u8]) -> io::Result<(usize, bool)> {
    let Poll::Ready(sent) = stream.as_mut().poll_write(cx, bytes) else { return Ok((0, false)) };
    match (sent?, stream.poll_flush(cx)) {
        (sent, Poll::Ready(flushed)) => flushed.map(|()| (sent, true)),
        (sent, Poll::Pending) => Ok((sent, false)),
    }
}

/// Measures how long a connection is idle, in quarters of the longest time, so that commands set no timer of their own.
/// Without a longest time, it measures nothing.
struct Silence {
    quarters: Option<Interval>,
    passed: u32,
}

impl Silence {
    fn new(longest: Option<Duration>) -> Self {
        let quarters = longest.map(|longest| {
            let quarter = (longest / 4).max(Duration::from_millis(1));
            let mut quarters = interval_at(Instant::now() + quarter, quarter);
            quarters.set_missed_tick_behavior(MissedTickBehavior::Delay);
            quarters
        });
        Self { quarters, passed: 0 }
    }

    /// Something was said.
    fn broken(&mut self) {
        self.passed = 0;
    }

    /// Ends when the silence has lasted long enough. The first quarter may have begun before it.
    async fn lasts(&mut self) {
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

    use super::Silence;

    /// Uses tokio's paused time, which advances without waiting.
    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_only_if_a_timeout_is_set() {
        let year = Duration::from_secs(366 * 86_400);
        assert!(timeout(year, Silence::new(None).lasts()).await.is_err(), "off is forever");
        let mut silence = Silence::new(Some(Duration::from_secs(300)));
        assert!(timeout(Duration::from_secs(299), silence.lasts()).await.is_err());
        silence.broken();
        assert!(timeout(Duration::from_secs(299), silence.lasts()).await.is_err(), "it begins again with each command");
        assert!(timeout(Duration::from_secs(300), silence.lasts()).await.is_ok());
    }
}
