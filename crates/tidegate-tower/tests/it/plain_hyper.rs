//! hyper without a framework: a service with its own types and inserted addresses.

use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::{body::Incoming, client::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tidegate_tower::{PeerAddress, RateLimitLayer};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer as _, Service as _};

use crate::test_server::{limiter, policy};

/// Serves a page with a rate limit. `introduce` inserts the peer address.
async fn serve(introduce: fn(&mut Request<Incoming>, SocketAddr)) -> SocketAddr {
    let page = tower::service_fn(async |request: Request<Incoming>| {
        let text = format!("hello, {}", request.uri().path());
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
    });
    let page = RateLimitLayer::new(policy("api", &["1/1m"])).in_store(limiter().1).layer(page);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let page = page.clone();
            let service = service_fn(move |mut request| {
                introduce(&mut request, peer);
                page.clone().call(request)
            });
            tokio::spawn(async move {
                auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await
            });
        }
    });
    address
}

async fn get(address: SocketAddr) -> (u16, Bytes) {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("it speaks HTTP");
    tokio::spawn(connection);
    let request = Request::get("/page").header("host", "localhost").body(Empty::<Bytes>::new()).expect("a request");
    let response = sender.send_request(request).await.expect("it answers");
    (response.status().as_u16(), response.into_body().collect().await.expect("a body").to_bytes())
}

#[tokio::test]
async fn a_plain_service_is_limited_by_the_inserted_address() {
    let ways: [fn(&mut Request<Incoming>, SocketAddr); 2] = [
        |request, peer| {
            request.extensions_mut().insert(PeerAddress(peer.ip()));
        },
        |request, peer| {
            request.extensions_mut().insert(peer);
        },
    ];
    for introduce in ways {
        let address = serve(introduce).await;
        assert_eq!(get(address).await, (200, "hello, /page".into()));
        assert_eq!(get(address).await.0, 429);
    }
}

#[tokio::test]
async fn a_plain_service_without_an_address_is_an_error() {
    let (status, body) = get(serve(|_, _| {}).await).await;
    assert_eq!(status, 500);
    assert!(!String::from_utf8_lossy(&body).contains("PeerAddress"), "{body:?}");
}
