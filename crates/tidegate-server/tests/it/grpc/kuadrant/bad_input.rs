//! Bad input to reservations over gRPC. Kuadrant's protocol defines the answer to an id without an open hold: the amount is
//! spent under the descriptors of the commit.

use super::*;
use crate::{grpc::METHOD, reservations::id, running::Running};

/// The answer to a request: a result, or a status with a part of its message.
type Expected = Result<&'static str, (StatusCode, &'static str)>;

/// A request that this client sends, its answer, and the units that it spends on `team=alice`.
struct Case<'a> {
    input: &'a str,
    send: &'a dyn Fn(&GrpcClient) -> Result<String, Status>,
    expected: Expected,
    spends: u64,
}

impl Case<'_> {
    fn run(&self, client: &GrpcClient) {
        let used = || client.used("tokens", &["team", "alice"]).first().copied().unwrap_or(0);
        let before = used();
        match ((self.send)(client), self.expected) {
            (Ok(answer), Ok(expected)) => assert_eq!(answer, expected, "{}", self.input),
            (Err(status), Err((code, message))) => {
                assert_eq!(status.code(), code, "{}: {status:?}", self.input);
                assert!(status.message().contains(message), "{}: {status:?}", self.input);
            }
            (answer, expected) => panic!("{}: {answer:?}, not {expected:?}", self.input),
        }
        assert_eq!(used() - before, self.spends, "{}", self.input);
    }
}

fn code_name(code: i32) -> String {
    Code::try_from(code).expect("a known code").as_str_name().to_owned()
}

fn try_reserve(client: &GrpcClient, descriptors: &[RateLimitDescriptor], ttl: Duration) -> Result<String, Status> {
    let request = ReserveRequest { ttl: Some(ttl), ..reserve_request(descriptors, 1, None) };
    send::<ReserveResponse>(client, RESERVE, request).map(|answer| code_name(answer.code))
}

fn try_commit(client: &GrpcClient, descriptors: &[RateLimitDescriptor], id: &str) -> Result<String, Status> {
    let request = CommitRequest {
        domain: "edge".to_owned(),
        descriptors: descriptors.to_vec(),
        reservation_id: id.to_owned(),
        actual_amount: 2,
    };
    let answer: CommitResponse = send(client, COMMIT, request)?;
    Ok(if answer.reservation_released { "released" } else { "not open" }.to_owned())
}

fn try_check(client: &GrpcClient, method: &'static str, descriptors: &[RateLimitDescriptor]) -> Result<String, Status> {
    send::<RateLimitResponse>(client, method, request(descriptors)).map(|answer| code_name(answer.overall_code))
}

#[test]
fn every_bad_input_gets_a_clear_answer() {
    let client = GrpcClient::start(CONFIG);
    let (alice, job) = ([team("alice")], descriptor(&[("job", "import")]));
    let seconds = |seconds| Duration { seconds, nanos: 0 };
    let foreign = reserve(&GrpcClient::start(CONFIG), &alice, 1).expect("a place");
    let own = reserve(&client, &alice, 10).expect("a place");
    let (policy, numbers) = own.split_once('.').expect("two parts");
    let other = if numbers.starts_with('A') { "B" } else { "A" };
    let guessed = format!("{policy}.{other}{}", &numbers[1..]);
    let other_policy = format!("njobs.{numbers}");
    let no_policy = format!("nnowhere.{numbers}");
    let lease = json!({ "policy": "tokens", "key": ["team", "alice"], "asked": 5, "ttl_ms": 10_000 });
    let lease = id(&post(client.running.http, "/v1/lease", &lease));
    let long = "x".repeat(201);
    let many = vec![team("alice"); 65];
    let both = [team("alice"), job.clone()];
    let precondition =
        Err((StatusCode::FailedPrecondition, "the limit `1/inflight`, which counts open holds: reserve instead"));
    let too_many = Err((StatusCode::InvalidArgument, "the request has 65 descriptors: send 1 to 64"));
    let wrong_ttl = Err((StatusCode::InvalidArgument, "the ttl is negative or out of range: use a duration of 1ms"));
    let ids = [
        ("an id with another random number", &guessed),
        ("an id of another service", &foreign),
        ("an id with the name of another policy", &other_policy),
        ("an id with the name of no policy", &no_policy),
        ("the id of a lease", &lease),
        ("an id that is too long", &long),
    ];
    let commits: Vec<_> =
        ids.iter().map(|(_, id)| |client: &GrpcClient| try_commit(client, &[team("alice")], id)).collect();
    for ((input, _), send) in ids.iter().zip(&commits) {
        Case { input, send, expected: Ok("not open"), spends: 2 }.run(&client);
    }
    let cases: [Case<'_>; 8] = [
        Case {
            input: "a negative ttl",
            send: &|client| try_reserve(client, &alice, seconds(-1)),
            expected: wrong_ttl,
            spends: 0,
        },
        Case {
            input: "a ttl above max_hold is lowered",
            send: &|client| try_reserve(client, &alice, seconds(i64::MAX)),
            expected: Ok("OK"),
            spends: 1,
        },
        Case {
            input: "a check under an in-flight limit",
            send: &|client| try_check(client, METHOD, std::slice::from_ref(&job)),
            expected: precondition,
            spends: 0,
        },
        Case {
            input: "a check of several under an in-flight limit",
            send: &|client| try_check(client, METHOD, &both),
            expected: precondition,
            spends: 0,
        },
        Case {
            input: "a report under an in-flight limit",
            send: &|client| try_check(client, REPORT, &both),
            expected: precondition,
            spends: 0,
        },
        Case {
            input: "a check that spends nothing",
            send: &|client| try_check(client, CHECK, &both),
            expected: Ok("OK"),
            spends: 0,
        },
        Case {
            input: "a reserve of too many",
            send: &|client| try_reserve(client, &many, seconds(1)),
            expected: too_many,
            spends: 0,
        },
        Case {
            input: "a commit of too many",
            send: &|client| try_commit(client, &many, &own),
            expected: too_many,
            spends: 0,
        },
    ];
    for case in &cases {
        case.run(&client);
    }
    let state = client.inspect("tokens", &["team", "alice"]).expect("a state");
    let open: Vec<_> = state.reservations.iter().map(|open| (open.is_lease, open.units)).collect();
    assert!(open.contains(&(true, 5)), "the lease is still open: {open:?}");
    assert!(open.contains(&(false, 10)), "nothing closed the hold: {open:?}");
    assert_eq!(try_commit(&client, &alice, &own).expect("a valid request"), "released");
}

#[test]
fn an_id_of_a_changed_policy_is_committed_and_one_of_a_removed_policy_is_not_open() {
    let folder = tempfile::tempdir().expect("a writable directory");
    let file = folder.path().join("tidegate.toml");
    let write = |policy: &str, limit: &str| {
        let text = format!(
            "[server]\nallow_removal = true\n[policies.{policy}]\nlimits = [\"{limit}\"]\n\
             [[envoy]]\ndomain = \"edge\"\ndescriptors = [[\"team\"]]\npolicy = \"{policy}\"\n"
        );
        std::fs::write(&file, text).expect("a file");
    };
    write("tokens", "100/1h");
    let running = Running::start_from_file(&file);
    let client = GrpcClient { channel: channel(&running), running };
    let alice = [team("alice")];
    let [first, second] = [(); 2].map(|()| reserve(&client, &alice, 40).expect("a place"));
    write("tokens", "50/1h");
    client.running.reload();
    assert_eq!(reserve(&client, &alice, 1), None, "the new limit applies at once");
    assert!(commit(&client, &alice, &first, 5));
    assert_eq!(client.used("tokens", &["team", "alice"]), [45]);
    write("budget", "100/1h");
    client.running.reload();
    assert!(!commit(&client, &alice, &second, 5), "the policy of the hold is gone");
    assert_eq!(client.used("budget", &["team", "alice"]), [5], "so the amount is spent under the rule of now");
}
