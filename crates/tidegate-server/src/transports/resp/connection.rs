//! One connection, from its first byte to its last: what was read is answered before more is read, with one write.

use std::{future::poll_fn, io, net::SocketAddr, pin::Pin, pin::pin, task::Poll, time::Duration};

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

/// What is still read of a caller once the service stops: as much as can wait in a socket.
const LAST_WORDS: usize = 8 << 20;

/// How often a write that is stuck is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long one listens for them.
const A_MOMENT: Duration = Duration::from_millis(5);

/// Serves one connection to its end; when the service stops, until what has arrived is answered.
pub(crate) async fn serve(house: House, stream: Stream, peer: SocketAddr) {
    let bounds = house.settings.bounds;
    let mut connection = Connection {
        input: Input::new(bounds.body),
        batch: Batch::default(),
        session: Session::new(peer, &house.settings.tokens),
        replies: Replies::default(),
        bounds,
        peer,
        stream,
        house,
    };
    match connection.run().await {
        Ok(()) => {}
        Err(error) => tracing::debug!(%peer, %error, "a connection ended early"),
    }
    let _ = timeout(bounds.header_timeout, connection.stream.shutdown()).await;
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
            let read = match patience {
                None => waiting.await,
                Some(until) => match timeout_at(until, waiting).await {
                    Ok(read) => read,
                    Err(_) => {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "a command was not finished in time"));
                    }
                },
            };
            let Some(read) = read else { return self.last_words().await };
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
                patience = None;
            } else if answered || patience.is_none() {
                patience = Some(Instant::now() + self.bounds.header_timeout);
            }
            if stop.is_cancelled() {
                return self.last_words().await;
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

    /// Answers what has arrived, and waits for no more than that.
    async fn last_words(&mut self) -> io::Result<()> {
        let mut heard = 0;
        while heard < LAST_WORDS {
            // What lies in the socket may not have been noticed yet.
            let Ok(read) = timeout(A_MOMENT, self.stream.read(self.input.room())).await else { break };
            let count = read?;
            self.input.filled(count);
            heard += count;
            if count == 0 || self.answer().await?.0 == Next::Close {
                break;
            }
        }
        Ok(())
    }
}

/// Sends all replies, within the bounds of time and memory for replies that are not read.
async fn send(stream: &mut Stream, replies: &mut Replies, unread: &UnreadResponses) -> io::Result<()> {
    let bytes = replies.bytes();
    if bytes.is_empty() {
        return Ok(());
    }
    // Nearly always all of it goes at once, and no timer is needed.
    let at_once = poll_fn(|cx| Poll::Ready(Pin::new(&mut *stream).poll_write(cx, bytes))).await;
    let sent = match at_once {
        Poll::Ready(sent) => sent?,
        Poll::Pending => 0,
    };
    let encrypted = matches!(stream, Stream::Right(_));
    if sent < bytes.len() || encrypted {
        let _held = unread.hold(bytes.len()).ok_or_else(|| {
            io::Error::other("replies were not read, and others have taken the memory for such replies")
        })?;
        let mut rest = pin!(async {
            stream.write_all(&bytes[sent..]).await?;
            stream.flush().await
        });
        let mut waited = Duration::ZERO;
        loop {
            // In small steps: how long one waits depends on how much others hold meanwhile.
            let step = unread.patience().min(LOOK_AGAIN);
            if let Ok(written) = timeout(step, rest.as_mut()).await {
                written?;
                break;
            }
            waited += step;
            if waited >= unread.patience() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "replies were not read"));
            }
        }
    }
    replies.clear();
    Ok(())
}

/// Measures how long nothing is said, in quarters, so that no timer is set for each command.
struct Silence {
    quarters: Interval,
    passed: u32,
}

impl Silence {
    fn new(longest: Duration) -> Self {
        let quarter = (longest / 4).max(Duration::from_millis(1));
        let mut quarters = interval_at(Instant::now() + quarter, quarter);
        quarters.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { quarters, passed: 0 }
    }

    /// Something was said.
    fn broken(&mut self) {
        self.passed = 0;
    }

    /// Ends when the silence has lasted long enough. The first quarter may have begun before it.
    async fn lasts(&mut self) {
        while self.passed <= 4 {
            self.quarters.tick().await;
            self.passed += 1;
        }
    }
}
