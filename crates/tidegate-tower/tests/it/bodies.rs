//! All body types: each can contain a denial, and the bytes of each can be counted.

use std::{convert::Infallible, sync::Arc};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{
    BodyExt as _, Full, StreamBody,
    combinators::{BoxBody, UnsyncBoxBody},
};
use tidegate::{Cost, Key, Limiter};
use tidegate_tower::{RateLimitLayer, ResponseBody, Rule, key::Global};
use tower::{Layer as _, ServiceExt as _};

use crate::test_server::{limiter, policy};

type Pieces = StreamBody<stream::Iter<std::array::IntoIter<Result<Frame<Bytes>, Infallible>, 2>>>;

/// A body of 2500 bytes without a size hint.
fn pieces() -> Pieces {
    let piece = |bytes: &'static [u8]| Ok(Frame::data(Bytes::from_static(bytes)));
    StreamBody::new(stream::iter([piece(&[b'x'; 1500]), piece(&[b'y'; 1000])]))
}

/// Sends two requests to a service with such bodies. The first is admitted, the second denied.
async fn is_answered_with_and_counted<R>(body: fn() -> R)
where
    R: ResponseBody + Send + 'static,
    R::Error: std::fmt::Debug,
{
    let (_, limiter): (_, Arc<Limiter>) = limiter();
    let three = policy("api", &["3/1m"]);
    let rule = Rule::new(three.clone()).key(Global).settle_by_size(1000);
    let pages = tower::service_fn(move |_: Request<Full<Bytes>>| {
        std::future::ready(Ok::<_, Infallible>(Response::new(body())))
    });
    let service = RateLimitLayer::new(rule).in_store(Arc::clone(&limiter)).layer(pages);
    let used = || limiter.peek(&three, &Key::new("everyone").expect("a key"), Cost::ONE).used();

    let page = service.clone().oneshot(Request::default()).await.expect("it answers").into_body();
    let page = page.collect().await.expect("a whole body").to_bytes();
    assert_eq!((page.len(), used()), (2500, 3));
    let denied = service.oneshot(Request::default()).await.expect("it answers");
    assert_eq!(denied.status(), 429);
    let denied = denied.into_body().collect().await.expect("a whole body").to_bytes();
    assert!(denied.starts_with(b"{"), "{denied:?}");
}

#[tokio::test]
async fn every_body_type_can_contain_a_denial_and_be_counted() {
    is_answered_with_and_counted(|| Full::new(Bytes::from_static(&[b'x'; 2500]))).await;
    is_answered_with_and_counted::<UnsyncBoxBody<Bytes, Infallible>>(|| pieces().boxed_unsync()).await;
    is_answered_with_and_counted::<BoxBody<Bytes, Infallible>>(|| pieces().boxed()).await;
    is_answered_with_and_counted(|| Body::new(pieces())).await;
    is_answered_with_and_counted(|| tonic::body::Body::new(pieces())).await;
}

#[tokio::test]
async fn an_unread_body_costs_nothing() {
    let (_, limiter) = limiter();
    let three = policy("api", &["3/1m"]);
    let rule = Rule::new(three.clone()).key(Global).settle_by_size(1000);
    let pages =
        tower::service_fn(async |_: Request<Full<Bytes>>| Ok::<_, Infallible>(Response::new(Body::new(pieces()))));
    let service = RateLimitLayer::new(rule).in_store(Arc::clone(&limiter)).layer(pages);
    drop(service.oneshot(Request::default()).await.expect("it answers"));
    assert_eq!(limiter.peek(&three, &Key::new("everyone").expect("a key"), Cost::ONE).used(), 0);
}
