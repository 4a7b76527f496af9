//! A service that stops answers everyone it has let in.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tidegate::{Key, Op};
use tidegate_server::{Ask, By, Price, Service, Transport};

use crate::running::Running;

const CONFIG: &str = "[server]\ndrain = \"30s\"\n[policies.api]\nlimits = [\"1000000/1h\"]\n";

fn used(running: &Running, service: &Service) -> u64 {
    let ask = Ask {
        by: By::Policy("api"),
        key: Key::new("k").expect("a key"),
        price: Price::Cost(tidegate::Cost::ONE),
        on_failure: None,
    };
    let live = service.live();
    let answer = running.block_on(service.decide(Transport::Http, &live, Op::Peek, &ask));
    answer.expect("the policy is known").decision.used()
}

#[test]
fn whatever_was_charged_was_answered() {
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
                reader.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
                // An answer ends with its body's last brace; answers differ in length.
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
        assert_eq!(running.stop(), 0, "all were served before patience ended");
    });
    assert_eq!(used(&running, &service), answered.load(Relaxed));
    assert!(TcpStream::connect(address).is_err(), "nobody is let in any more");
}
