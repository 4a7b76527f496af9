//! A service that stops answers every accepted connection first.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tidegate::{Key, Op};
use tidegate_server::{Actor, KeyRequest, LimitSource, Price, Service, Transport};

use tidegate_testbed::Server;

use crate::{resp::client::command, running::Running};

const CONFIG: &str = "[server]\ndrain = \"30s\"\n[policies.api]\nlimits = [\"1000000/1h\"]\n";

/// A limit that no test reaches.
const HIGH_LIMIT: &str =
    "[server]\ndrain = \"30s\"\n[policies.api]\nlimits = [\"1_000_000_000/366d\"]\nalgorithm = \"fixed_window\"\n";

fn key_request() -> KeyRequest<'static> {
    KeyRequest {
        source: LimitSource::Policy("api"),
        key: Key::new("k").expect("a key"),
        price: Price::Cost(tidegate::Cost::ONE),
        on_failure: None,
    }
}

fn used(running: &Running, service: &Service) -> u64 {
    let policies = service.active_policies();
    let response = running.block_on(service.decide(Transport::Http, &policies, Op::Peek, &key_request()));
    response.expect("the policy is known").decision.used()
}

#[test]
fn every_request_charged_over_http_is_answered() {
    let mut running = Running::start(CONFIG);
    let service = std::sync::Arc::clone(running.server().service());
    let body = r#"{"policy":"api","key":"k"}"#;
    let http = format!(
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (address, answered) = (running.http, AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let Ok(mut stream) = TcpStream::connect(address) else { return };
                let mut reader = stream.try_clone().expect("a second handle");
                reader.set_read_timeout(Some(Duration::from_secs(60))).expect("a valid timeout");
                // Responses differ in length, and each ends with the last brace of its body.
                while stream.write_all(http.as_bytes()).is_ok() {
                    let mut byte = [0];
                    let mut complete = false;
                    while !complete && matches!(reader.read(&mut byte), Ok(1)) {
                        complete = byte == *b"}";
                    }
                    if !complete {
                        return;
                    }
                    answered.fetch_add(1, Relaxed);
                }
            });
        }
        while answered.load(Relaxed) < 500 {
            std::thread::yield_now();
        }
        assert_eq!(running.stop(), 0, "no connection was cut off");
    });
    assert_eq!(used(&running, &service), answered.load(Relaxed));
    assert!(TcpStream::connect(address).is_err(), "new connections are refused");
}

/// Writes batches until the service reads no more, while another thread counts the replies until the end of the
/// stream.
fn pipeline_until_closed(address: SocketAddr, answered: &AtomicU64) {
    let batch = command(["TG.CHECK", "api", "k"]).repeat(40);
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    let reader = stream.try_clone().expect("a second handle");
    reader.set_read_timeout(Some(Duration::from_secs(60))).expect("a valid timeout");
    std::thread::scope(|scope| {
        scope.spawn(move || while stream.write_all(&batch).is_ok() {});
        // A reply is an array of six numbers: its header and six lines.
        let mut lines = 0;
        for line in BufReader::new(&reader).split(b'\n') {
            let line = line.expect("the stream ends without a reset");
            assert!(line.ends_with(b"\r"), "a reply was cut off");
            lines += 1;
            answered.fetch_add(u64::from(lines % 7 == 0), Relaxed);
        }
        assert_eq!(lines % 7, 0, "a reply was cut off");
        // The writer gets an error when the last handle is closed.
        reader.shutdown(std::net::Shutdown::Both).ok();
    });
}

fn every_request_charged_over_resp_is_answered(store: &str) {
    for _ in 0..5 {
        let mut running = Running::start(&format!("[store]\nurl = \"{store}\"\ntimeout = \"10s\"\n{HIGH_LIMIT}"));
        let service = std::sync::Arc::clone(running.server().service());
        let reset = running.block_on(service.reset(&service.active_policies(), &key_request(), Actor::default()));
        reset.expect("the store answers");
        let (address, answered) = (running.resp, AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| pipeline_until_closed(address, &answered));
            }
            while answered.load(Relaxed) < 4_000 {
                std::thread::yield_now();
            }
            assert_eq!(running.stop(), 0, "no connection was cut off");
        });
        assert_eq!(used(&running, &service), answered.load(Relaxed));
    }
}

#[test]
fn every_request_charged_over_resp_in_memory_is_answered() {
    every_request_charged_over_resp_is_answered("memory");
}

#[test]
fn every_request_charged_over_resp_in_redis_is_answered() {
    let redis = Server::start();
    every_request_charged_over_resp_is_answered(&redis.url());
}

/// The service stops when a connection waits in the accept queue and no other connection is served.
#[test]
fn a_connection_in_the_accept_queue_is_served_before_the_service_stops() {
    for _ in 0..5 {
        let mut running = Running::start(CONFIG);
        let service = std::sync::Arc::clone(running.server().service());
        let mut clients: Vec<TcpStream> =
            (0..20).map(|_| TcpStream::connect(running.resp).expect("the service listens")).collect();
        for client in &mut clients {
            client.write_all(&command(["TG.CHECK", "api", "k"]).repeat(10)).expect("a socket takes this");
        }
        running.stop();
        let charged = used(&running, &service);
        let mut lines = 0;
        for mut client in clients {
            let mut bytes = Vec::new();
            // A connection that was never accepted is reset, and was not charged.
            if client.read_to_end(&mut bytes).is_ok() {
                lines += bytes.split(|byte| *byte == b'\n').count() as u64 - 1;
            }
        }
        assert_eq!(lines, charged * 7, "nothing is charged after stop returned");
        assert_eq!(used(&running, &service), charged);
    }
}
