//! The server behind the proxy. It answers every request with a page and records the request.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// A form for the browser. The empty icon prevents a request for `/favicon.ico`.
const PAGE: &str = r#"<!doctype html><title>shop</title><link rel="icon" href="data:,">
<form method="post" action="/order"><input name="item" value="tea"><button>order</button></form>"#;

/// A recorded request.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The server. It is stopped on drop.
pub(crate) struct Upstream {
    pub(crate) port: u16,
    arrived: Arc<Mutex<Vec<ReceivedRequest>>>,
    stopped: Arc<AtomicBool>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("the service listens").port();
        let (arrived, stopped) = (Arc::<Mutex<Vec<ReceivedRequest>>>::default(), Arc::<AtomicBool>::default());
        let upstream = Self { port, arrived: Arc::clone(&arrived), stopped: Arc::clone(&stopped) };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let arrived = Arc::clone(&arrived);
                std::thread::spawn(move || respond(stream, &arrived));
            }
        });
        upstream
    }

    /// Returns and removes the recorded requests.
    pub(crate) fn take(&self) -> Vec<ReceivedRequest> {
        std::mem::take(&mut self.arrived.lock().expect("no thread panicked"))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn respond(mut stream: TcpStream, arrived: &Mutex<Vec<ReceivedRequest>>) {
    let Some(request) = read(&stream) else { return };
    let body = if request.method == "HEAD" { "" } else { PAGE };
    arrived.lock().expect("no thread panicked").push(request);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        PAGE.len()
    );
    let _ = stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice());
}

fn read(stream: &TcpStream) -> Option<ReceivedRequest> {
    let mut input = BufReader::new(stream);
    let mut line = String::new();
    input.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = Vec::new();
        input.read_until(b'\n', &mut line).ok()?;
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut request = ReceivedRequest { method, path, headers, body: String::new() };
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    Some(request)
}
