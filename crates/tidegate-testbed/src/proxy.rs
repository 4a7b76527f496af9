//! [`Proxy`]: a TCP proxy that adds network latency.
#![expect(clippy::disallowed_methods, reason = "it delays bytes by real time")]

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use crate::port::free_port;

/// A TCP proxy on 127.0.0.1 that forwards bytes after a delay. The delay can be changed at any time.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    /// Delay of a round trip in microseconds; half of it each way.
    delay: AtomicU64,
    stopped: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy for a server that listens on this port of 127.0.0.1, without a delay.
    pub fn start(target: u16) -> Self {
        let port = free_port();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the port was free a moment ago");
        let shared = Arc::new(Shared {
            target: (Ipv4Addr::LOCALHOST, target).into(),
            delay: AtomicU64::new(0),
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
        for (from, to) in [(client, &server), (&server, client)] {
            from.set_nodelay(true)?;
            self.forward(from.try_clone()?, to.try_clone()?);
            self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(from.try_clone()?);
        }
        Ok(())
    }

    /// Forwards bytes in one direction until one end closes.
    fn forward(self: &Arc<Self>, mut from: TcpStream, mut to: TcpStream) {
        let (send, due) = mpsc::channel::<(Instant, Vec<u8>)>();
        let shared = Arc::clone(self);
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let due = Instant::now() + Duration::from_micros(shared.delay.load(Relaxed) / 2);
                if send.send((due, buffer[..length].to_vec())).is_err() {
                    return;
                }
            }
        });
        thread::spawn(move || {
            for (due, bytes) in due {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                if to.write_all(&bytes).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}
