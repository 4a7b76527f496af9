//! One address opens as many connections as possible.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
};

use crate::{http::client::request, running::Running};

/// Connects from this local address and sends a request. Returns the connection if it is served.
fn connect(from: &str, to: SocketAddr, request_bytes: &[u8]) -> Option<TcpStream> {
    let from: IpAddr = from.parse().expect("an address");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::new(from, 0)).expect("all of 127/8 is this machine");
        socket.connect(to).await.expect("the service listens").into_std().expect("a socket")
    });
    stream.set_nonblocking(false).expect("a socket can");
    let mut stream = stream;
    stream.write_all(request_bytes).ok()?;
    stream.read_exact(&mut [0]).ok()?;
    Some(stream)
}

#[test]
fn one_address_cannot_use_all_connections() {
    let running = Running::start("[server]\nmax_connections = 20\nmax_connections_per_address = 8\n");
    let http: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let http2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for (transport, address, request_bytes) in
        [("http", running.http, http), ("resp", running.resp, b"PING\r\n"), ("grpc", running.grpc, http2)]
    {
        let held: Vec<_> = (0..8).map(|_| connect("127.0.0.1", address, request_bytes).expect("a place")).collect();
        assert!(
            connect("127.0.0.1", address, request_bytes).is_none(),
            "{transport}: the address has reached its maximum"
        );
        let other = connect("127.0.0.2", address, request_bytes);
        assert!(other.is_some(), "{transport}: another address has its own maximum");
        drop(held);
        // The slots are free when the service has noticed the closed connections.
        while connect("127.0.0.1", address, request_bytes).is_none() {}
    }
    let metrics = loop {
        let response = std::panic::catch_unwind(|| request(running.http, "GET", "/metrics", &[], ""));
        if let Ok(response) = response {
            break String::from_utf8(response.body).expect("text");
        }
    };
    for transport in ["http", "resp", "grpc"] {
        let name = format!("tidegate_connections_turned_away_by_address_total{{transport=\"{transport}\"}} ");
        let count = metrics.lines().find_map(|line| line.strip_prefix(&name)).expect("they are counted");
        assert!(count.parse::<u64>().is_ok_and(|count| count > 0), "{transport}: {count}");
    }
}
