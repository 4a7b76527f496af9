//! [`Proxy`]: a TCP proxy that delays, loses and repeats messages.
#![expect(clippy::disallowed_methods, reason = "it delays bytes by real time")]

mod repeater;

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{self, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use crate::port::free_port;
use repeater::Repeater;

/// A TCP proxy on 127.0.0.1 that forwards bytes after a delay. The faults can be changed at any time.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

/// The messages that a proxy has lost or repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProxyFaults {
    /// Connections that were cut before a request arrived.
    pub lost_requests: u64,
    /// Connections that were cut after a request had arrived, and before its reply.
    pub lost_replies: u64,
    /// Commands that arrived twice.
    pub repeated: u64,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    /// Delay of a round trip in microseconds; half of it each way.
    delay: AtomicU64,
    requests: Faults,
    replies: Faults,
    repetitions: Faults,
    stopped: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// Faults of one kind, each at every n-th opportunity.
#[derive(Debug, Default)]
struct Faults {
    /// 0 for never.
    every: AtomicU64,
    opportunities: AtomicU64,
    happened: AtomicU64,
}

impl Faults {
    fn set(&self, every: u64) {
        self.every.store(every, Relaxed);
    }

    /// Whether the fault happens now.
    fn happens(&self) -> bool {
        let number = self.opportunities.fetch_add(1, Relaxed) + 1;
        let happens = number.checked_rem(self.every.load(Relaxed)) == Some(0);
        self.happened.fetch_add(u64::from(happens), Relaxed);
        happens
    }
}

/// A direction in which bytes are forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Replies,
}

impl Proxy {
    /// Starts a proxy for a server that listens on this port of 127.0.0.1, without a delay.
    pub fn start(target: u16) -> Self {
        let port = free_port();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the port was free a moment ago");
        let shared = Arc::new(Shared {
            target: (Ipv4Addr::LOCALHOST, target).into(),
            delay: AtomicU64::new(0),
            requests: Faults::default(),
            replies: Faults::default(),
            repetitions: Faults::default(),
            stopped: AtomicBool::new(false),
            streams: Mutex::new(Vec::new()),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.stopped.load(Relaxed) {
                    return;
                }
                if let Ok(client) = client {
                    // If the server is not running, the connection is closed.
                    let _ = accepting.connect(&client);
                }
            }
        });
        Self { port, shared }
    }

    /// `redis://127.0.0.1:1234`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Delays each round trip by `round_trip` from now on. Bytes in transit keep their delay.
    pub fn set_delay(&self, round_trip: Duration) {
        self.shared.delay.store(u64::try_from(round_trip.as_micros()).expect("a short time"), Relaxed);
    }

    /// Cuts the connection at every n-th piece of bytes that arrives from a client, and at every n-th that arrives from the
    /// server, and loses this piece; 0 for never. A client that is cut off does not know whether its requests were carried
    /// out.
    pub fn lose_every(&self, pieces: u64) {
        self.shared.requests.set(pieces);
        self.shared.replies.set(pieces);
    }

    /// Sends every n-th command of the clients twice; 0 for never. The copy has the same bytes, comes a round trip later on a
    /// connection of its own, and nobody reads its reply. Set it before clients connect.
    pub fn repeat_every(&self, commands: u64) {
        self.shared.repetitions.set(commands);
    }

    /// The faults so far.
    pub fn faults(&self) -> ProxyFaults {
        let happened = |faults: &Faults| faults.happened.load(Relaxed);
        ProxyFaults {
            lost_requests: happened(&self.shared.requests),
            lost_replies: happened(&self.shared.replies),
            repeated: happened(&self.shared.repetitions),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        for stream in self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, client: &TcpStream) -> io::Result<()> {
        let server = TcpStream::connect(self.target)?;
        let repeater = match self.repetitions.every.load(Relaxed) {
            0 => None,
            _ => Some(Repeater::connect(self)?),
        };
        self.forward(Direction::Replies, &server, client, None)?;
        self.forward(Direction::Requests, client, &server, repeater)
    }

    /// The stream is closed when the proxy ends.
    fn keep(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(stream.try_clone()?);
        Ok(())
    }

    fn half_delay(&self) -> Duration {
        Duration::from_micros(self.delay.load(Relaxed) / 2)
    }

    /// Forwards bytes in one direction until one end closes or the connection is cut.
    fn forward(
        self: &Arc<Self>,
        direction: Direction,
        from: &TcpStream,
        to: &TcpStream,
        mut repeater: Option<Repeater>,
    ) -> io::Result<()> {
        self.keep(from)?;
        let (mut from, to) = (from.try_clone()?, to.try_clone()?);
        let later = write_later(to.try_clone()?);
        let shared = Arc::clone(self);
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let bytes = &buffer[..length];
                let faults = if direction == Direction::Requests { &shared.requests } else { &shared.replies };
                if faults.happens() {
                    let _ = from.shutdown(Shutdown::Both);
                    let _ = to.shutdown(Shutdown::Both);
                    return;
                }
                if let Some(repeater) = &mut repeater {
                    repeater.read(bytes);
                }
                if later.send((Instant::now() + shared.half_delay(), bytes.to_vec())).is_err() {
                    return;
                }
            }
        });
        Ok(())
    }
}

/// Writes bytes when they are due, in the order in which they are sent here. Closes the stream at the end.
fn write_later(mut to: TcpStream) -> Sender<(Instant, Vec<u8>)> {
    let (send, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, bytes) in due {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    send
}
