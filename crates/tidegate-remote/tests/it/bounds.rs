//! A root that sends too much, or answers nothing, neither fills the memory nor delays a request without end.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use tidegate::{Cost, Key, OnStoreFailure, Policy, Reason, Store as _};
use tidegate_remote::RemoteStore;

pub(crate) const INFO: &[u8] = b"$22\r\ntidegate_version:0.1.0\r\n";

/// A server that answers INFO as a Tidegate does, and every other command with `answer`.
fn server(answer: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> String {
    server_with(INFO, answer)
}

/// A server that answers INFO with `info`.
pub(crate) fn server_with(info: &'static [u8], answer: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.expect("a connection"), Arc::clone(&answer));
            thread::spawn(move || {
                let mut buffer = [0; 8 << 10];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                    if text.contains("INFO") {
                        stream.write_all(info).expect("a connection");
                    } else {
                        answer(&mut stream);
                    }
                }
            });
        }
    });
    format!("tidegate://{address}")
}

pub(crate) fn policy(choice: OnStoreFailure) -> Policy {
    let policy = Policy::new("api", ["9/1m".parse().expect("a limit")]).expect("a policy");
    policy.with_on_store_failure(choice)
}

#[tokio::test]
async fn a_reply_without_end_is_cut_off() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let url = server(move |stream| {
        let chunk = [b'x'; 8 << 10];
        let mut count = stream.write(b"$900000000\r\n").unwrap_or(0);
        while count < 900_000_000 {
            match stream.write(&chunk) {
                Ok(written @ 1..) => count += written,
                _ => break,
            }
            counted.store(count, Relaxed);
        }
    });
    let store = RemoteStore::builder(&url).timeout(Duration::from_secs(60)).connect().expect("a store");
    let key = Key::from(1_u8);
    let error = store.check(&policy(OnStoreFailure::Closed), &key, Cost::ONE).await.expect_err("no answer");
    assert_eq!(error.cause(), "lost", "{error}");
    assert!(sent.load(Relaxed) < 100_000_000, "{} bytes were sent", sent.load(Relaxed));
}

#[tokio::test]
async fn a_reply_that_lacks_a_field_is_an_error_that_says_what_to_update() {
    let url = server(|stream| stream.write_all(b"*2\r\n$7\r\nallowed\r\n:1\r\n").expect("a connection"));
    let store = RemoteStore::builder(&url).timeout(Duration::from_secs(60)).connect().expect("a store");
    let key = Key::from(1_u8);
    let error = store.check(&policy(OnStoreFailure::Closed), &key, Cost::ONE).await.expect_err("no decision");
    assert_eq!(error.cause(), "garbled");
    assert!(error.to_string().contains("no valid `limit`; the root must have the release of this service"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_bound_are_not_sent_and_not_admitted() {
    let url = server(|_| {});
    let store = RemoteStore::builder(&url).max_requests(2).timeout(Duration::from_secs(5)).connect().expect("a store");
    store.ready().await;
    let check = |choice| {
        let store = store.clone();
        async move { store.check(&policy(choice), &Key::from(1_u8), Cost::ONE).await }
    };
    let waiting = [tokio::spawn(check(OnStoreFailure::Open)), tokio::spawn(check(OnStoreFailure::Open))];
    tokio::task::yield_now().await;
    let shed = check(OnStoreFailure::Open).await.expect("`open` is not for overload");
    assert_eq!((shed.reason(), shed.is_degraded()), (Reason::StoreUnavailable, true));
    assert_eq!(check(OnStoreFailure::Closed).await.expect_err("the choice decides").cause(), "overloaded");
    for request in waiting {
        assert_eq!(request.await.expect("it ends").expect_err("no answer").cause(), "timeout");
    }
    // Nobody waits for the two requests any more. They are still under way.
    assert_eq!(check(OnStoreFailure::Closed).await.expect_err("the bound holds").cause(), "overloaded");
}
