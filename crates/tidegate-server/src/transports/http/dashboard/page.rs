//! The page's files.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
        header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY},
    },
    response::{IntoResponse as _, Response},
};

use super::super::{guard, nowhere, problem::Problem};
use crate::{
    dashboard::{self, Asset},
    door::House,
};

/// What the page may do: nothing but show its own files and ask its own service. It writes no markup from text either.
const SECURITY: [(HeaderName, HeaderValue); 4] = [
    (
        HeaderName::from_static("content-security-policy"),
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        ),
    ),
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
];

/// The page itself.
pub(crate) async fn page(State(house): State<Arc<House>>, headers: HeaderMap, uri: Uri) -> Result<Response, Problem> {
    guard::origin(&house.settings, &headers, &uri)?;
    match dashboard::asset("index.html") {
        Some(page) => Ok(file(page, &headers)),
        None => Err(nowhere(uri).await),
    }
}

/// A file of it.
pub(crate) async fn asset(
    State(house): State<Arc<House>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    guard::origin(&house.settings, &headers, &uri)?;
    match dashboard::asset(&name) {
        Some(asset) => Ok(file(asset, &headers)),
        None => Err(nowhere(uri).await),
    }
}

fn file(asset: &'static Asset, asked: &HeaderMap) -> Response {
    let mentions = |name: HeaderName, word: &str| {
        let values = asked.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.split(';').next().unwrap_or("").trim() == word)
    };
    let is_known = mentions(IF_NONE_MATCH, &asset.tag);
    let zipped = mentions(ACCEPT_ENCODING, "gzip");
    let mut response = match (is_known, zipped) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => asset.gzip.as_slice().into_response(),
        (false, false) => asset.bytes.into_response(),
    };
    let headers = response.headers_mut();
    headers.extend(SECURITY);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    // Asked for each time, sent only when another program has another one.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(tag) = HeaderValue::try_from(&asset.tag) {
        headers.insert(ETAG, tag);
    }
    if zipped && !is_known {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}
