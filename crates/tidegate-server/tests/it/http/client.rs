//! A minimal HTTP client.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.body)))
    }
}

/// Sends bytes and reads until the connection is closed.
pub(crate) fn raw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the service listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a valid timeout");
    let _ = stream.write_all(bytes);
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    response
}

/// Sends one request on a new connection.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    use std::fmt::Write as _;
    let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| *name == "host") {
        let _ = write!(text, "host: {address}\r\n");
    }
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let _ = write!(text, "\r\n{body}");
    parse(&raw(address, text.as_bytes()))
}

fn parse(response: &[u8]) -> Response {
    let end =
        response.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("no head: {response:?}"));
    let head = String::from_utf8_lossy(&response[..end]);
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Response {
        status: status.expect("a status"),
        headers: lines.filter_map(header).collect(),
        body: response[end + 4..].to_vec(),
    }
}

/// Sends a POST request with a JSON body.
pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Response {
    request(address, "POST", path, &[("content-type", "application/json")], &body.to_string())
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Response {
    request(address, "GET", path, &[], "")
}
