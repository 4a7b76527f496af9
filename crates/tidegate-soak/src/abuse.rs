//! Abuse by hostile clients, one kind after the other, each with a maximum count and duration.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tidegate_testbed::{Reply, Wire};

use crate::service::{Service, TIGHT};

/// Duration of one kind of abuse.
const DURATION: Duration = Duration::from_secs(10);
/// Commands that are sent at once.
const PIPELINE: u64 = 1_000;
/// Connections that check one key at the same time.
const HOT_CONNECTIONS: usize = 8;
/// HTTP/2 connections that read nothing, and requests on each.
const UNREAD: (usize, usize) = (40, 1_000);
/// Idle connections that are held open.
const IDLE: usize = 2_000;

/// Counts of the abuse so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) commands: u64,
    pub(crate) hot_checks: u64,
    pub(crate) hot_keys: u64,
    /// Checks of hot keys that were sent after the limit denied one, and admitted.
    pub(crate) hot_over: u64,
    /// Checks of hot keys that were admitted beyond the limit before one was denied: the failure choice
    /// `open` admits them while the state of Redis is unknown.
    pub(crate) hot_early: u64,
    pub(crate) unread: u64,
    pub(crate) guesses: u64,
    pub(crate) connections: u64,
}

/// Runs the next kind of abuse.
pub(crate) fn run(round: usize, service: &Service, counts: &mut Counts) -> anyhow::Result<()> {
    match round % 8 {
        0 => many_windows(service, counts),
        1 => many_keys(service, counts),
        2 => hot_key(round, service, counts),
        3 => unread_responses(service, counts),
        4 => guesses(service, counts),
        5 => garbage(service, counts),
        6 => idle_connections(service, counts),
        _ => unread_replies(service, counts),
    }
}

/// Repeats for as long as one kind of abuse lasts.
fn turns() -> impl Iterator<Item = ()> {
    let end = Instant::now() + DURATION;
    std::iter::from_fn(move || (Instant::now() < end).then_some(()))
}

/// Limits supplied by the caller, each with a new window. The windows are short, so that the store has room for honest
/// keys later.
fn many_windows(service: &Service, counts: &mut Counts) -> anyhow::Result<()> {
    let first = fastrand::u64(..1_000_000);
    flood(service, counts, |number| {
        let window = 30_000 + (first + number) % 30_000;
        format!("TG.LIMIT k{number} 1/{window}ms\r\nCL.THROTTLE c{number} 1 1 {}\r\n", window / 1_000)
    })
}

/// New keys of one policy in every request.
fn many_keys(service: &Service, counts: &mut Counts) -> anyhow::Result<()> {
    let first = fastrand::u64(..);
    flood(service, counts, |number| format!("TG.CHECK flooded {first}-{number}\r\nTG.LIMIT {first}-{number} 1/20s\r\n"))
}

/// Sends pairs of commands in pipelines for a while, and reads the replies.
fn flood(service: &Service, counts: &mut Counts, pair: impl Fn(u64) -> String) -> anyhow::Result<()> {
    let mut connection = Wire::try_connect(&service.resp).context("RESP accepts no connection of a flood")?;
    let mut number = 0;
    for () in turns() {
        let batch: String = (number..number + PIPELINE).map(&pair).collect();
        number += PIPELINE;
        connection.try_send_bytes(batch.as_bytes()).context("the flood can't be sent")?;
        for _ in 0..2 * PIPELINE {
            connection.try_read().context("the flood gets no reply")?;
            counts.commands += 1;
        }
    }
    Ok(())
}

/// Many connections that check one key as fast as they can.
fn hot_key(round: usize, service: &Service, counts: &mut Counts) -> anyhow::Result<()> {
    let key = format!("hot-{round}-{}", fastrand::u64(..));
    let denied = AtomicBool::new(false);
    let attack = || -> anyhow::Result<HotKeyResult> {
        let mut connection = Wire::try_connect(&service.resp)?;
        let mut result = HotKeyResult::default();
        for () in turns() {
            let was_denied = denied.load(Relaxed);
            for _ in 0..PIPELINE {
                connection.try_send(["TG.CHECK", "tight", &key])?;
            }
            for _ in 0..PIPELINE {
                result.checks += 1;
                let Reply::Array(numbers) = connection.try_read()? else { continue };
                match numbers[..] {
                    [Reply::Integer(1), ..] if was_denied => result.admitted_after += 1,
                    [Reply::Integer(1), ..] => result.admitted_before += 1,
                    // A denial with a time to wait comes from the limit, not from shedding.
                    [Reply::Integer(0), _, _, Reply::Integer(1..), ..] => denied.store(true, Relaxed),
                    _ => {}
                }
            }
        }
        Ok(result)
    };
    let result: Vec<_> = thread::scope(|scope| {
        let attackers: Vec<_> = (0..HOT_CONNECTIONS).map(|_| scope.spawn(attack)).collect();
        attackers.into_iter().map(|attacker| attacker.join().expect("an attacker does not panic")).collect()
    });
    let mut before = 0;
    for result in result {
        let HotKeyResult { checks, admitted_before, admitted_after } = result.context("while a hot key is checked")?;
        counts.hot_checks += checks;
        counts.hot_over += admitted_after;
        before += admitted_before;
    }
    counts.hot_keys += 1;
    counts.hot_early += before.saturating_sub(TIGHT);
    Ok(())
}

/// The results of one connection that checks a hot key.
#[derive(Debug, Default)]
struct HotKeyResult {
    checks: u64,
    /// Admitted requests that were sent before any connection had read a denial, and after that.
    admitted_before: u64,
    admitted_after: u64,
}

/// HTTP/2 requests whose responses are not read.
fn unread_responses(service: &Service, counts: &mut Counts) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let addresses = [&service.http, &service.grpc];
    let path = format!("/{}", "x".repeat(3_000));
    runtime.block_on(async {
        let mut held = Vec::new();
        for connection in 0..UNREAD.0 {
            let Ok(stream) = tokio::net::TcpStream::connect(addresses[connection % 2]).await else { continue };
            let mut builder = h2::client::Builder::new();
            builder.initial_window_size(0).initial_connection_window_size(0);
            let Ok((client, connection)) = builder.handshake::<_, &[u8]>(stream).await else { continue };
            tokio::spawn(async move {
                // An error means that the service has closed the connection.
                let _ = connection.await;
            });
            held.push(client);
        }
        let mut responses = Vec::new();
        for client in held {
            let Ok(mut client) = client.ready().await else { continue };
            for number in 0..UNREAD.1 {
                let uri = if number % 2 == 0 { path.as_str() } else { "/metrics" };
                let request = http::Request::get(format!("http://localhost{uri}")).body(())?;
                let Ok((response, _)) = client.send_request(request, true) else { break };
                responses.push(response);
                counts.unread += 1;
            }
        }
        tokio::time::sleep(DURATION).await;
        Ok(())
    })
}

/// RESP commands whose replies are not read.
fn unread_replies(service: &Service, counts: &mut Counts) -> anyhow::Result<()> {
    let mut streams = Vec::new();
    let batch = "TG.CHECK flooded unread FULL\r\n".repeat(1_000);
    for _ in 0..UNREAD.0 {
        let stream = TcpStream::connect(&service.resp).context("RESP accepts no connection that does not read")?;
        stream.set_nonblocking(true)?;
        streams.push(stream);
    }
    for () in turns() {
        for stream in &mut streams {
            // A full socket or a closed connection is expected.
            if stream.write(batch.as_bytes()).is_ok() {
                counts.unread += PIPELINE;
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Wrong tokens.
fn guesses(service: &Service, counts: &mut Counts) -> anyhow::Result<()> {
    let end = Instant::now() + DURATION;
    while Instant::now() < end {
        let mut connection =
            Wire::try_connect(&service.resp).context("RESP accepts no connection with wrong tokens")?;
        for number in 0..100 {
            counts.guesses += 1;
            // The service may close the connection at any time.
            let guess = format!("guess-{number}");
            if Instant::now() >= end || connection.try_command(["AUTH", guess.as_str()]).is_err() {
                break;
            }
        }
        let mut stream = TcpStream::connect(&service.http).context("HTTP accepts no connection with wrong tokens")?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let request = "GET /v1/inspect?policy=tight&key=k HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong-token\r\n\
             Connection: close\r\n\r\n";
        counts.guesses += 1;
        if stream.write_all(request.as_bytes()).is_ok() {
            let _ = stream.read(&mut [0; 1024]);
        }
    }
    Ok(())
}

/// Meaningless bytes, sent to every listener.
fn garbage(service: &Service, counts: &mut Counts) -> anyhow::Result<()> {
    for () in turns() {
        for address in [&service.http, &service.resp, &service.grpc] {
            let mut stream = TcpStream::connect(address).with_context(|| format!("{address} accepts no connection"))?;
            stream.set_read_timeout(Some(Duration::from_millis(200)))?;
            stream.set_write_timeout(Some(Duration::from_millis(200)))?;
            let bytes: Vec<u8> = (0..fastrand::usize(1..20_000)).map(|_| fastrand::u8(..)).collect();
            counts.connections += 1;
            // The service may close the connection after any byte.
            if stream.write_all(&bytes).is_ok() && stream.write_all(b"\r\nNONSENSE\r\n").is_ok() {
                let _ = stream.read(&mut [0; 4096]);
            }
        }
    }
    Ok(())
}

/// Connections that send nothing, or half of a request.
fn idle_connections(service: &Service, counts: &mut Counts) -> anyhow::Result<()> {
    let addresses = [&service.http, &service.resp, &service.grpc];
    let mut held = Vec::new();
    for number in 0..IDLE {
        let Ok(mut stream) = TcpStream::connect(addresses[number % 3]) else { continue };
        // The service may close it.
        let _ = stream.write_all(if number % 2 == 0 { b"" } else { b"POST /v1/check HTTP/1.1\r\nHost: loc" });
        held.push(stream);
        counts.connections += 1;
    }
    for () in turns() {
        service.must_reply().context("while connections are held open")?;
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}
