//! Kuadrant's rate limit service.

mod bad_input;

use prost::Message;
use prost_types::Duration;
use serde_json::json;
use tonic::{Code as StatusCode, Request, Status};

use super::{
    GrpcClient, call, channel, descriptor, hits,
    proto::{
        Code, CommitRequest, CommitResponse, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, ReserveRequest,
        ReserveResponse,
    },
    refund, request,
};
use crate::{
    http::client::{get, post},
    resp::client::{Client, Reply},
};

const CONFIG: &str = r#"
[policies.tokens]
limits = ["100/1h"]
max_hold = "1m"
[policies.jobs]
limits = ["60/1h", "1/inflight"]
[[envoy]]
domain = "edge"
descriptors = [["team"]]
policy = "tokens"
[[envoy]]
domain = "edge"
descriptors = [["job"]]
policy = "jobs"
[[envoy]]
domain = "edge"
descriptors = [["blocked"]]
deny = true
"#;

const RESERVE: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/Reserve";
const COMMIT: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/Commit";
const CHECK: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit";
const REPORT: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/Report";

/// Calls a method with a message.
fn send<A: Message + Default + 'static>(
    client: &GrpcClient,
    method: &'static str,
    message: impl Message + 'static,
) -> Result<A, Status> {
    call(&client.running, channel(&client.running), method, Request::new(message))
}

fn reserve_request(descriptors: &[RateLimitDescriptor], amount: u64, ttl: Option<i64>) -> ReserveRequest {
    let ttl = ttl.map(|seconds| Duration { seconds, nanos: 0 });
    ReserveRequest { domain: "edge".to_owned(), descriptors: descriptors.to_vec(), amount, ttl }
}

/// Reserves. Returns the id; an empty one if the answer is OK without a hold, and `None` if it is over the limit.
fn reserve(client: &GrpcClient, descriptors: &[RateLimitDescriptor], amount: u64) -> Option<String> {
    let answer: ReserveResponse =
        send(client, RESERVE, reserve_request(descriptors, amount, Some(30))).expect("a valid request");
    if answer.code == i32::from(Code::Ok) {
        return Some(answer.reservation_id);
    }
    assert_eq!((answer.code, &*answer.reservation_id), (Code::OverLimit.into(), ""));
    None
}

/// Commits. Returns whether the hold was open.
fn commit(client: &GrpcClient, descriptors: &[RateLimitDescriptor], id: &str, actual_amount: u64) -> bool {
    let request = CommitRequest {
        domain: "edge".to_owned(),
        descriptors: descriptors.to_vec(),
        reservation_id: id.to_owned(),
        actual_amount,
    };
    send::<CommitResponse>(client, COMMIT, request).expect("a valid request").reservation_released
}

fn team(name: &str) -> RateLimitDescriptor {
    descriptor(&[("team", name)])
}

#[test]
fn messages_have_the_field_numbers_and_types_of_kuadrants_protocol() {
    let one = [team("a")];
    let request = ReserveRequest { domain: "d".to_owned(), ..reserve_request(&one, 300, Some(5)) };
    let descriptors = b"\x12\x0b\x0a\x09\x0a\x04team\x12\x01a";
    assert_eq!(request.encode_to_vec(), [&b"\x0a\x01d"[..], descriptors, b"\x18\xac\x02\x22\x02\x08\x05"].concat());
    let response = ReserveResponse { code: Code::OverLimit.into(), reservation_id: "id".to_owned() };
    assert_eq!(response.encode_to_vec(), b"\x08\x02\x12\x02id");
    let request = CommitRequest {
        domain: "d".to_owned(),
        descriptors: one.to_vec(),
        reservation_id: "id".to_owned(),
        actual_amount: 7,
    };
    assert_eq!(request.encode_to_vec(), [&b"\x0a\x01d"[..], descriptors, b"\x1a\x02id\x20\x07"].concat());
    assert_eq!(CommitResponse { reservation_released: true }.encode_to_vec(), b"\x08\x01");
}

#[test]
fn a_reservation_is_committed_with_the_actual_amount() {
    let client = GrpcClient::start(CONFIG);
    let alice = [team("alice")];
    let id = reserve(&client, &alice, 80).expect("it fits");
    assert_eq!(client.used("tokens", &["team", "alice"]), [80]);
    assert_eq!(reserve(&client, &alice, 21), None, "other requests see what is reserved");
    assert_eq!(reserve(&client, &alice, 101), None, "more than the limit ever allows");
    assert!(commit(&client, &alice, &id, 30));
    assert_eq!(client.used("tokens", &["team", "alice"]), [30]);
    let id = reserve(&client, &alice, 70).expect("it fits again");
    assert!(commit(&client, &alice, &id, 0), "a failed request costs nothing");
    assert_eq!(client.used("tokens", &["team", "alice"]), [30]);
    assert_eq!(client.metric("tidegate_holds_closed_total{policy=\"tokens\"} "), 2);
}

#[test]
fn a_commit_without_an_open_hold_spends_its_amount() {
    let client = GrpcClient::start(CONFIG);
    let alice = [team("alice")];
    let id = reserve(&client, &alice, 80).expect("it fits");
    assert!(commit(&client, &alice, &id, 30));
    for (id, used) in [(&*id, 40), ("", 50), ("nonsense", 60), ("ngone.AAAAAAAAAAAAAAAAAAAAAA", 70)] {
        assert!(!commit(&client, &alice, id, 10), "{id}");
        assert_eq!(client.used("tokens", &["team", "alice"]), [used], "{id}");
    }
    assert!(!commit(&client, &alice, "", 50), "even beyond the limit");
    assert_eq!(client.used("tokens", &["team", "alice"]), [120]);
    assert!(!commit(&client, &[descriptor(&[("other", "x")])], "", 5), "no rule matches");
    assert!(!commit(&client, &[descriptor(&[("job", "x")])], "", 5), "open holds count nothing afterwards");
}

#[test]
fn the_descriptors_of_a_reservation_are_one_hold() {
    let client = GrpcClient::start(CONFIG);
    let both = [team("alice"), team("bob"), descriptor(&[("other", "x")])];
    let id = reserve(&client, &both, 60).expect("both fit");
    assert_eq!(reserve(&client, &[team("bob"), team("carol")], 60), None);
    let used = |name: &str| client.used("tokens", &["team", name]);
    assert_eq!((used("alice"), used("bob"), used("carol")), (vec![60], vec![60], vec![]), "all or nothing");
    assert!(commit(&client, &both, &id, 10));
    assert_eq!((used("alice"), used("bob")), (vec![10], vec![10]));
    let blocked = [team("alice"), descriptor(&[("blocked", "x")])];
    assert_eq!(reserve(&client, &blocked, 1), None, "a rule denies");
    assert_eq!(used("alice"), [10]);
    assert_eq!(reserve(&client, &[descriptor(&[("other", "x")])], 5).as_deref(), Some(""), "no rule matches");
    assert_eq!(reserve(&client, &[team("alice")], 0).as_deref(), Some(""), "nothing is held");
    assert_eq!(
        reserve(&client, &[hits(90, team("alice"))], 1).map(|id| id.is_empty()),
        Some(false),
        "hits are not used"
    );
}

#[test]
fn a_reservation_is_the_same_hold_over_all_transports() {
    let client = GrpcClient::start(CONFIG);
    let (http, mut resp) = (client.running.http, Client::connect(client.running.resp));
    let alice = [team("alice")];
    let ids: Vec<String> = (0..2).filter_map(|_| reserve(&client, &alice, 40)).collect();
    let body = json!({ "policy": "tokens", "key": ["team", "alice"], "cost": 20, "ttl_ms": 1_000 });
    let answer = post(http, "/v1/reserve", &body);
    assert_eq!((answer.status, &answer.json()["used"]), (200, &json!(100)));
    assert_eq!(post(http, "/v1/reserve", &body).status, 429);
    assert_eq!(reserve(&client, &alice, 1), None);
    let over_http = post(http, "/v1/commit", &json!({ "reservation": ids[0], "actual": 1 })).json();
    assert_eq!((&over_http["known"], &over_http["used"]), (&json!(true), &json!(61)));
    assert_eq!(resp.call(&format!("TG.COMMIT {} 2", ids[1])), Reply::Int(1));
    let id = answer.json()["reservation"].as_str().expect("an id").to_owned();
    assert!(commit(&client, &alice, &id, 3));
    assert_eq!(client.used("tokens", &["team", "alice"]), [6]);
}

#[test]
fn a_ttl_is_kept_within_the_bounds_of_the_policy() {
    let client = GrpcClient::start(CONFIG);
    for (ttl, expected) in [(None, 60_000_000), (Some(3_600), 60_000_000), (Some(30), 30_000_000), (Some(0), 1_000)] {
        let name = format!("{ttl:?}");
        let answer: ReserveResponse = send(&client, RESERVE, reserve_request(&[team(&name)], 1, ttl)).expect("valid");
        assert_eq!(answer.code, i32::from(Code::Ok));
        if expected == 1_000 {
            // It ends before it can be inspected.
            continue;
        }
        let state = client.inspect("tokens", &["team", &name]).expect("a state");
        let open = state.reservations[0];
        assert_eq!(open.until.as_micros() - open.granted_at.as_micros(), expected, "{ttl:?}");
    }
    let refused = send::<ReserveResponse>(&client, RESERVE, reserve_request(&[team("a")], 1, Some(-1)));
    assert_eq!(refused.expect_err("a negative ttl").code(), StatusCode::InvalidArgument);
    for wrong in [ReserveRequest::default(), ReserveRequest { domain: "edge".to_owned(), ..ReserveRequest::default() }]
    {
        let refused = send::<ReserveResponse>(&client, RESERVE, wrong);
        assert_eq!(refused.expect_err("no domain or no descriptors").code(), StatusCode::InvalidArgument);
    }
    let refused = send::<ReserveResponse>(&client, RESERVE, reserve_request(&vec![team("a"); 65], 1, None));
    assert_eq!(refused.expect_err("too many descriptors").code(), StatusCode::InvalidArgument);
}

#[test]
fn an_in_flight_limit_counts_the_requests_that_are_not_committed() {
    let client = GrpcClient::start(CONFIG);
    let job = [descriptor(&[("job", "import")])];
    let id = reserve(&client, &job, 1).expect("a place");
    assert_eq!(reserve(&client, &job, 1), None);
    assert!(commit(&client, &job, &id, 1));
    assert!(reserve(&client, &job, 1).is_some());
    assert_eq!(client.used("jobs", &["job", "import"]), [2, 1], "the window counts both");
}

#[test]
fn check_spends_nothing_and_report_spends_beyond_the_limit() {
    let client = GrpcClient::start(CONFIG);
    let ask = |method, hits_addend| {
        let message = RateLimitRequest { hits_addend, ..request(&[team("alice")]) };
        send::<RateLimitResponse>(&client, method, message).expect("a valid request").overall_code
    };
    assert_eq!(ask(CHECK, 100), i32::from(Code::Ok));
    assert_eq!(ask(REPORT, 150), i32::from(Code::Ok));
    assert_eq!(client.used("tokens", &["team", "alice"]), [150]);
    assert_eq!(ask(CHECK, 0), i32::from(Code::OverLimit));
    for method in [CHECK, REPORT] {
        let refused = send::<RateLimitResponse>(&client, method, request(&[refund(1, team("alice"))]));
        assert_eq!(refused.expect_err("negative hits").code(), StatusCode::InvalidArgument);
    }
    let job = send::<RateLimitResponse>(&client, REPORT, request(&[descriptor(&[("job", "x")])]));
    assert_eq!(job.expect_err("a charge").code(), StatusCode::FailedPrecondition);
}

#[test]
fn reservations_need_a_token_if_one_is_configured() {
    let client =
        GrpcClient::start(&format!("[server]\ntoken = \"use-me-now\"\nadmin_token = \"change-me-now\"\n{CONFIG}"));
    for method in [RESERVE, COMMIT, CHECK, REPORT] {
        let refused = send::<ReserveResponse>(&client, method, reserve_request(&[team("a")], 1, None));
        assert_eq!(refused.expect_err("no token").code(), StatusCode::Unauthenticated, "{method}");
    }
    let mut request = Request::new(reserve_request(&[team("a")], 1, None));
    request.metadata_mut().insert("authorization", "Bearer use-me-now".parse().expect("a valid header"));
    let answer: ReserveResponse =
        call(&client.running, channel(&client.running), RESERVE, request).expect("the ordinary token is enough");
    assert_eq!(answer.code, i32::from(Code::Ok));
    assert_eq!(get(client.running.http, "/healthz").status, 200);
}
