//! A layer logs what it needs and does not find: each cause once, with the fix.

use std::{
    convert::Infallible,
    fmt,
    sync::{Arc, Barrier, Mutex},
    thread,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body_util::Full;
use tidegate::Key;
use tidegate_tower::{
    OnMissingKey, PeerAddress, RateLimitLayer, Rule,
    key::{Extension, Global, Header, PathParameter},
};
use tower::{Layer as _, Service as _};
use tracing::{
    Dispatch, Event, Level, Metadata,
    field::{Field, Visit},
    span,
};

use crate::test_server::policy;

/// Collects the messages of warnings and errors.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().expect("no panic").push((*event.metadata().level(), message.0));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Account {
    id: String,
}

#[derive(Clone)]
struct Beta;

#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Free,
    Trial,
    Gold,
}

fn request(with_address: bool) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    if with_address {
        request.extensions_mut().insert(PeerAddress([203, 0, 113, 7].into()));
    }
    request
}

/// Sends requests through the layer from four threads at once. Returns their statuses and the log.
fn send(layer: &RateLimitLayer, request: impl Fn() -> Request<Full<Bytes>> + Sync) -> (Vec<u16>, Vec<(Level, String)>) {
    let log = Log::default();
    let dispatch = Dispatch::new(log.clone());
    let start = Barrier::new(4);
    let page = tower::service_fn(async |_: Request<Full<Bytes>>| Ok::<_, Infallible>(Response::new(Full::default())));
    let send_all = || {
        let mut service = layer.layer(page);
        let mut send = || service.call(request()).now_or_never().expect("it is immediate").expect("it can't fail");
        start.wait();
        tracing::dispatcher::with_default(&dispatch, || [(); 25].map(|()| send().status().as_u16()))
    };
    let mut statuses: Vec<u16> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(send_all)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    statuses.dedup();
    let log = log.0.lock().expect("no panic").clone();
    (statuses, log)
}

fn rule() -> Rule {
    Rule::new(policy("api", &["1000/1m"]))
}

#[track_caller]
fn assert_one(log: &[(Level, String)], level: Level, parts: &[&str]) {
    let [(logged, message)] = log else { panic!("one message, not {log:#?}") };
    assert_eq!(*logged, level, "{message}");
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in `{message}`");
    }
}

#[test]
fn a_missing_address_is_logged_once_with_the_fix() {
    let fix = ["into_make_service_with_connect_info::<SocketAddr>()", "PeerAddress"];
    let by_user = || rule().key(Header::new("x-user").expect("a header's name"));
    for rule in [rule(), rule().on_missing_key(OnMissingKey::Admit), by_user()] {
        let (statuses, log) = send(&RateLimitLayer::new(rule), || request(false));
        assert_eq!(statuses, [500]);
        assert_one(&log, Level::ERROR, &fix);
    }
    // An allow list of addresses that matches nobody.
    let allow = RateLimitLayer::new(rule().key(Global)).allow(["203.0.113.0/24".parse().expect("a network")]);
    let (statuses, log) = send(&allow, || request(false));
    assert_eq!(statuses, [200]);
    assert_one(&log, Level::ERROR, &fix);
}

#[test]
fn a_missing_extension_is_logged_once_with_the_fix() {
    let by_account = || rule().key(Extension::<Account>::new(|account| Key::new(&account.id)));
    let by_closure = rule().key_fn(|request| Key::new(&request.extension::<Account>()?.id).ok());
    let tiers = Rule::tiers([(Plan::Free, policy("free", &["1000/1m"]))], |request| match request.extension() {
        None => Plan::Free,
        Some(Account { .. }) => Plan::Gold,
    });
    let cost = rule().cost(|request| request.extension::<Account>().map_or(1, |_| 2));
    for rules in [
        vec![by_account()],
        vec![by_account().on_missing_key(OnMissingKey::Admit)],
        vec![by_closure],
        vec![tiers.expect("one tier")],
        vec![cost],
        vec![by_account(), by_account().cost(|_| 2)],
    ] {
        let (statuses, log) = send(&RateLimitLayer::all(rules), || request(true));
        assert_eq!(statuses, [200]);
        assert_one(&log, Level::WARN, &["Account`", "outermost", "client's address"]);
    }
    let rejecting = RateLimitLayer::new(by_account().on_missing_key(OnMissingKey::Reject));
    let (statuses, log) = send(&rejecting, || request(true));
    assert_eq!(statuses, [400]);
    assert_one(&log, Level::WARN, &["Account`"]);
}

#[test]
fn each_missing_extension_and_each_layer_has_its_own_warning() {
    let layer = RateLimitLayer::new(rule().key_fn(|request| Key::new(&request.extension::<Account>()?.id).ok()).cost(
        |request| {
            request.extension::<Beta>();
            1
        },
    ));
    let (_, log) = send(&layer, || request(true));
    let about = |name: &str| log.iter().filter(|(_, message)| message.contains(name)).count();
    assert_eq!((about("Account`"), about("Beta`"), log.len()), (1, 1, 2), "{log:?}");
    let (_, log) = send(&layer, || request(true));
    assert_eq!(log, [], "the layer has warned already");
    let (_, log) = send(&layer.clone().insert_decision(), || request(true));
    assert_eq!(log.len(), 2, "a changed layer is another layer: {log:?}");
}

#[test]
fn a_request_that_has_everything_is_not_logged() {
    let optional = rule().cost(|request| request.extensions().get::<Beta>().map_or(1, |_| 2));
    let layer = RateLimitLayer::all([optional, rule().key(Header::new("x-user").expect("a header's name"))])
        .skip(|request| request.extension::<Beta>().is_some())
        .on_decision(|event| assert!(event.request.extension::<Beta>().is_none()));
    let (statuses, log) = send(&layer, || request(true));
    assert_eq!((statuses, log), (vec![200], vec![]));
}

#[test]
fn a_missing_path_parameter_is_logged_once_if_nothing_was_routed() {
    let (statuses, log) = send(&RateLimitLayer::new(rule().key(PathParameter::new("id"))), || request(true));
    assert_eq!(statuses, [200]);
    assert_one(&log, Level::WARN, &["Router::layer"]);
}

#[test]
fn each_tier_without_a_policy_is_logged_once() {
    let tiers = Rule::tiers([(Plan::Free, policy("free", &["1/1m"]))], |request| match request.method().as_str() {
        "GET" => Plan::Trial,
        _ => Plan::Gold,
    });
    let layer = RateLimitLayer::new(tiers.expect("one tier"));
    let (statuses, log) = send(&layer, || request(true));
    assert_eq!(statuses, [500]);
    assert_one(&log, Level::ERROR, &["`Trial`", "[Free]"]);
    let post = || {
        let mut request = request(true);
        *request.method_mut() = http::Method::POST;
        request
    };
    assert_one(&send(&layer, post).1, Level::ERROR, &["`Gold`", "[Free]"]);
}

#[test]
fn rules_that_contradict_each_other_are_logged_once_and_not_revealed() {
    let layer = RateLimitLayer::all([rule(), Rule::new(policy("api", &["5/1m"]))]);
    let (statuses, log) = send(&layer, || request(true));
    assert_eq!(statuses, [500]);
    assert_one(&log, Level::ERROR, &["same name"]);
}
