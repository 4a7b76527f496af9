//! Access control: hosts, origins, content types and tokens.

use serde_json::json;

use super::client::request;
use crate::running::Running;

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn a_foreign_web_page_cannot_call_a_service_on_loopback() {
    let running = Running::start("[server]\nhosts = [\"limits.internal\"]\n[policies.api]\nlimits = [\"100/1m\"]\n");
    let body = json!({ "policy": "api", "key": "a" }).to_string();
    let port = running.http.port();
    let (local, named) = (format!("localhost:{port}"), format!("limits.internal:{port}"));
    let (same, other) = (format!("http://localhost:{port}"), format!("http://localhost:{}", port ^ 1));
    for (headers, status) in [
        (vec![JSON], 200),
        (vec![JSON, ("host", local.as_str())], 200),
        (vec![JSON, ("host", "[::1]:8080")], 200),
        (vec![JSON, ("host", named.as_str())], 200),
        (vec![JSON, ("host", "evil.example")], 403),
        (vec![JSON, ("host", "localhost.evil.example")], 403),
        (vec![JSON, ("origin", "https://evil.example")], 403),
        (vec![JSON, ("origin", "null")], 403),
        (vec![JSON, ("host", local.as_str()), ("origin", same.as_str())], 200),
        (vec![JSON, ("host", local.as_str()), ("origin", other.as_str())], 403),
        (vec![JSON, ("origin", "https://limits.internal")], 200),
        (vec![("content-type", "text/plain")], 415),
        (vec![("content-type", "application/json; charset=utf-8")], 200),
        (vec![], 415),
    ] {
        let response = request(running.http, "POST", "/v1/check", &headers, &body);
        assert_eq!(response.status, status, "{headers:?} gives {:?}", String::from_utf8_lossy(&response.body));
    }
    for path in ["/metrics", "/readyz", "/v1/policies", "/openapi.json", "/v1/inspect?policy=api&key=a"] {
        assert_eq!(request(running.http, "GET", path, &[("host", "evil.example")], "").status, 403, "{path}");
    }
}

#[test]
fn each_path_requires_its_token() {
    let config = "[server]\nwrong_token_delay = \"10ms\"\ntoken = \"use-me-now\"\nadmin_token = \"change-me-now\"\n[policies.api]\nlimits = [\"100/1m\"]\n";
    let running = Running::start(config);
    let request_body = json!({ "policy": "api", "key": "a" }).to_string();
    let refund = json!({ "policy": "api", "key": "a", "charged_at_us": 1 }).to_string();
    let status = |method: &str, path: &str, body: &str, token: Option<&str>| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).chain([JSON]).collect();
        request(running.http, method, path, &headers, body).status
    };
    for (method, path, body, none, usage, admin) in [
        ("POST", "/v1/check", &*request_body, 401, 200, 200),
        ("POST", "/v1/peek", &request_body, 401, 200, 200),
        ("POST", "/v1/charge", &request_body, 401, 200, 200),
        ("GET", "/v1/forward?policy=api", "", 401, 200, 200),
        ("GET", "/v1/policies", "", 401, 200, 200),
        ("GET", "/metrics", "", 401, 200, 200),
        ("POST", "/v1/refund", &refund, 401, 403, 200),
        ("POST", "/v1/reset", &request_body, 401, 403, 200),
        ("GET", "/v1/inspect?policy=api&key=a", "", 401, 403, 200),
        ("GET", "/healthz", "", 200, 200, 200),
        ("GET", "/readyz", "", 200, 200, 200),
    ] {
        assert_eq!(status(method, path, body, None), none, "{path}");
        // The first ten wrong tokens get 401, later ones 429.
        let wrong = status(method, path, body, Some("use-me-not"));
        assert!(wrong == none || (none, wrong) == (401, 429), "{path}: {wrong}");
        assert_eq!(status(method, path, body, Some("use-me-now")), usage, "{path}");
        assert_eq!(status(method, path, body, Some("change-me-now")), admin, "{path}");
    }
}

#[test]
fn only_callers_with_a_token_see_the_names_of_policies() {
    let config =
        "[server]\nwrong_token_delay = \"10ms\"\ntoken = \"use-me-now\"\n[policies.api]\nlimits = [\"100/1m\"]\n";
    let running = Running::start(&config.replace("token =", "admin_token = \"change-me-now\"\ntoken ="));
    let body = json!({ "policy": "nothing-like-it", "key": "a" }).to_string();
    let error = |path: &str, token: &str| {
        let headers = [JSON, ("authorization", token)];
        request(running.http, "POST", path, &headers, &body).json()["error"].as_str().expect("a text").to_owned()
    };
    let listed = "there is no policy `nothing-like-it`: the policies are `api`";
    assert_eq!(error("/v1/check", "Bearer use-me-now"), listed);
    assert_eq!(error("/v1/reset", "Bearer change-me-now"), listed);
    for (path, token) in [("/v1/check", ""), ("/v1/check", "Bearer wrong"), ("/v1/reset", "Bearer use-me-now")] {
        assert!(!error(path, token).contains("api"), "{path} with `{token}`");
    }
    // A proxy may send this response on to its clients.
    let forwarded = error("/v1/forward?policy=nothing-like-it", "Bearer use-me-now");
    assert_eq!(forwarded, "there is no policy `nothing-like-it`");
    let empty = request(Running::start("").http, "POST", "/v1/check", &[JSON], &body).json();
    assert_eq!(empty["error"], "there is no policy `nothing-like-it`: no policies are configured");
}
