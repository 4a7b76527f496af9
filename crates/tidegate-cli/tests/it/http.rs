//! Requests to a service over HTTP, one connection for each. An error means that there was no response.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::{Value, json};

/// The timeout of a response on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

fn send(address: SocketAddr, request: &str) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).map_err(text)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(text)?;
    stream.write_all(request.as_bytes()).map_err(text)?;
    let mut response = String::new();
    stream.read_to_string(&mut response).map_err(text)?;
    match response.split_once("\r\n\r\n") {
        Some((_, body)) => Ok(body.to_owned()),
        None => Err(format!("no response: {response:?}")),
    }
}

/// Returns the body of a page.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    send(address, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
}

/// Checks the key `k`.
pub(crate) fn check(address: SocketAddr, policy: &str) -> Result<Value, String> {
    send_json(address, "POST", "/v1/check", &json!({ "policy": policy, "key": "k" }).to_string())
}

/// Sends a JSON body. Returns the body of the response.
pub(crate) fn send_json(address: SocketAddr, method: &str, path: &str, body: &str) -> Result<Value, String> {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close");
    let request = format!("{head}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    send(address, &request).map(|body| json_of(&body))
}

#[track_caller]
pub(crate) fn json_of(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}
