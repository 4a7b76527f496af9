//! A client for server-sent events.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

/// An event stream.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
    pub(crate) head: String,
}

impl Events {
    /// Opens a stream with HTTP/1.0, so that the events are not chunked.
    pub(crate) fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = TcpStream::connect(address).expect("the service listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a valid timeout");
        let headers: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let headers = headers.concat();
        write!(stream, "GET {path} HTTP/1.0\r\nhost: {address}\r\n{headers}\r\n").expect("the connection is open");
        let mut events = Self { reader: BufReader::new(stream), head: String::new() };
        while let Some(line) = events.line().filter(|line| !line.is_empty()) {
            events.head.push_str(&line);
            events.head.push('\n');
        }
        events
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).expect("the stream is open");
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Returns the next event with this name. Skips others.
    pub(crate) fn next(&mut self, wanted: &str) -> Value {
        self.find(wanted, |_| true)
    }

    /// Returns the next event with this name that matches.
    pub(crate) fn find(&mut self, wanted: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut name = String::new();
        loop {
            let line = self.line().expect("the stream is open");
            if let Some(found) = line.strip_prefix("event: ") {
                found.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ").filter(|_| name == wanted) {
                let data = serde_json::from_str(data).expect("JSON");
                if is(&data) {
                    return data;
                }
            }
        }
    }

    /// Reads to the end of the stream.
    pub(crate) fn read_to_end(mut self) {
        while self.line().is_some() {}
    }
}
