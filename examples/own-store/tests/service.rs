//! A store of one's own behind the service, used as a library.

use own_store::MapStore;
use tidegate_server::{
    Server, Transport,
    config::{Config, SettingSources},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const POLICY: &str = "[policies.api]\nlimits = [\"2/1h\"]\n";

async fn start() -> Server {
    let keys = ["http", "resp", "grpc"].into_iter();
    let sources = keys.fold(SettingSources::default(), |all, key| all.server(key, key, "127.0.0.1:0"));
    let config = Config::parse("limits.toml", POLICY, &sources).expect("a configuration");
    Server::start_with_store(config, sources, MapStore::default()).await.expect("the service starts")
}

/// Sends bytes, and returns everything that comes back.
async fn exchange(server: &Server, transport: Transport, sent: &str) -> String {
    let address = server.address(transport).expect("an address");
    let mut stream = TcpStream::connect(address).await.expect("the service listens");
    stream.write_all(sent.as_bytes()).await.expect("the service reads");
    stream.shutdown().await.expect("the connection is open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the service answers");
    answer
}

async fn http(server: &Server, method: &str, path: &str, body: &str) -> String {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    exchange(server, Transport::Http, &request).await
}

#[tokio::test]
async fn every_transport_decides_by_the_store() {
    let server = start().await;
    let check = "{\"policy\":\"api\",\"key\":\"alice\"}";
    assert!(http(&server, "POST", "/v1/check", check).await.contains("\"allowed\":true"));
    let command = "*3\r\n$8\r\nTG.CHECK\r\n$3\r\napi\r\n$5\r\nalice\r\n";
    let answer = exchange(&server, Transport::Resp, command).await;
    assert!(answer.starts_with("*6\r\n:1\r\n"), "{answer}");
    let answer = http(&server, "POST", "/v1/check", check).await;
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("\"limited\""), "{answer}");
    let answer = http(&server, "POST", "/v1/reset", check).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(http(&server, "POST", "/v1/check", check).await.contains("\"allowed\":true"));
    server.stop().await;
}

#[tokio::test]
async fn the_status_names_the_store() {
    let server = start().await;
    let ready = http(&server, "GET", "/readyz", "").await;
    assert!(ready.contains("\"store\":\"map\"") && ready.contains("\"store_answers\":true"), "{ready}");
    server.stop().await;
}

#[tokio::test]
async fn an_operation_that_the_store_lacks_is_not_implemented() {
    let server = start().await;
    let answer = http(
        &server,
        "POST",
        "/v1/override",
        "{\"policy\":\"api\",\"key\":\"alice\",\"kind\":\"ban\",\"permanent\":true}",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 501 ") && answer.contains("no set_override"), "{answer}");
    server.stop().await;
}
