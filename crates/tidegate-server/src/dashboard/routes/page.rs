//! The files of the page.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
        header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY},
    },
    response::{IntoResponse as _, Response},
};

use super::super::asset::{self, Asset};
use crate::{
    context::Context,
    transports::http::{Problem, not_found, origin},
};

/// The page may only load its own files and call its own service. Scripts can't create markup from text.
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

/// Returns the page.
pub(super) async fn page(context: State<Arc<Context>>, headers: HeaderMap, uri: Uri) -> Result<Response, Problem> {
    asset(context, Path("index.html".to_owned()), headers, uri).await
}

/// Returns a file of the page.
pub(super) async fn asset(
    State(context): State<Arc<Context>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    origin(&context.settings, &headers, &uri)?;
    match asset::asset(&name) {
        Some(asset) => Ok(file(asset, &headers)),
        None => Err(not_found(uri).await),
    }
}

fn file(asset: &'static Asset, request: &HeaderMap) -> Response {
    let mentions = |name: HeaderName, expected: &str| {
        let values = request.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.split(';').next().unwrap_or("").trim() == expected)
    };
    let is_known = mentions(IF_NONE_MATCH, &asset.tag);
    let is_gzip = mentions(ACCEPT_ENCODING, "gzip");
    let mut response = match (is_known, is_gzip) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => asset.gzip.as_slice().into_response(),
        (false, false) => asset.text.as_str().into_response(),
    };
    let headers = response.headers_mut();
    headers.extend(SECURITY);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    // The browser asks each time, and gets the file only if it has changed.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(tag) = HeaderValue::try_from(&asset.tag) {
        headers.insert(ETAG, tag);
    }
    if is_gzip && !is_known {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}
