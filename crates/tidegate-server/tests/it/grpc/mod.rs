//! Tests of Envoy's rate limit service over a real connection.

mod decisions;
mod headers;
mod health;
mod import;
mod kuadrant;
mod matching;
mod overrides;
mod proto;
mod reflection;
mod refunds;
mod refusals;
mod wire;

use prost::Message;
use tidegate::{Inspection, Key};
use tidegate_server::{KeyRequest, LimitSource, Price};
use tonic::{Request, Status, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel};
use tonic_prost::ProstCodec;

use crate::running::Running;
use proto::{Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse};

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A service and a connection to it.
pub(crate) struct GrpcClient {
    channel: Channel,
    pub(crate) running: Running,
}

impl GrpcClient {
    pub(crate) fn start(config: &str) -> Self {
        let running = Running::start(config);
        Self { channel: channel(&running), running }
    }

    /// Sends any message to the service.
    fn send(&self, message: impl Message + 'static) -> Result<RateLimitResponse, Status> {
        send(&self.running, self.channel.clone(), Request::new(message))
    }

    /// Sends descriptors in the domain `edge` with this token.
    fn check_with_token(&self, token: &str, descriptors: &[RateLimitDescriptor]) -> Result<RateLimitResponse, Status> {
        send(&self.running, self.channel.clone(), with_token(request(descriptors), token))
    }

    /// Sends descriptors in the domain `edge`.
    fn check(&self, descriptors: &[RateLimitDescriptor]) -> RateLimitResponse {
        self.send(request(descriptors)).expect("a valid request")
    }

    /// Sends one descriptor.
    pub(crate) fn check_one(&self, descriptor: RateLimitDescriptor) -> DescriptorStatus {
        let response = self.check(&[descriptor]);
        let [status] = &*response.statuses else { panic!("one status for each descriptor: {response:?}") };
        assert_eq!(response.overall_code, status.code, "the only descriptor decides");
        status.clone()
    }

    /// Sends one descriptor, which the service must refuse.
    pub(crate) fn refusal(&self, descriptor: RateLimitDescriptor) -> Status {
        self.send(request(&[descriptor])).expect_err("it is refused")
    }

    /// Returns the state of the key that is this list over HTTP.
    fn inspect(&self, policy: &str, key: &[&str]) -> Option<Inspection> {
        let service = self.running.server().service();
        let key_request = KeyRequest {
            source: LimitSource::Policy(policy),
            key: Key::join(key).expect("a valid key"),
            price: Price::Cost(tidegate::Cost::ONE),
            on_failure: None,
        };
        let policies = service.active_policies();
        self.running.block_on(service.inspect(&policies, &key_request)).expect("the policy exists")
    }

    /// Returns the number of refused requests.
    fn refused(&self) -> u64 {
        self.metric("tidegate_refused_total{transport=\"grpc\"} ")
    }

    /// Returns the value of a metric.
    fn metric(&self, name: &str) -> u64 {
        let text = String::from_utf8(crate::http::client::get(self.running.http, "/metrics").body).expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|count| count.parse().ok()).expect("the metric exists")
    }

    /// Returns the units in use under each limit.
    fn used(&self, policy: &str, key: &[&str]) -> Vec<u64> {
        let found = self.inspect(policy, key);
        found.map_or(Vec::new(), |found| found.limits.iter().map(|in_use| in_use.used).collect())
    }
}

pub(crate) fn channel(running: &Running) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{}", running.grpc)).expect("a valid address");
    running.block_on(endpoint.connect()).expect("the service listens")
}

fn request(descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest { domain: "edge".to_owned(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

fn send<M: Message + 'static>(
    running: &Running,
    channel: Channel,
    request: Request<M>,
) -> Result<RateLimitResponse, Status> {
    call(running, channel, METHOD, request)
}

/// Calls a method of any service.
fn call<M: Message + 'static, A: Message + Default + 'static>(
    running: &Running,
    channel: Channel,
    method: &'static str,
    request: Request<M>,
) -> Result<A, Status> {
    let mut grpc = Grpc::new(channel);
    running.block_on(async {
        grpc.ready().await.expect("the service listens");
        let path = PathAndQuery::from_static(method);
        Ok(grpc.unary(request, path, ProstCodec::default()).await?.into_inner())
    })
}

/// Sends one descriptor with this token, on a new connection.
pub(crate) fn check_with_token(running: &Running, token: &str) -> Result<RateLimitResponse, Status> {
    send(running, channel(running), with_token(request(&[user("a")]), token))
}

fn with_token(request: RateLimitRequest, token: &str) -> Request<RateLimitRequest> {
    let mut request = Request::new(request);
    let value = format!("Bearer {token}").parse().expect("a valid header");
    request.metadata_mut().insert("authorization", value);
    request
}

pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

pub(crate) fn hits(hits: u64, descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor }
}

fn refund(units: u64, descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..hits(units, descriptor) }
}

fn user(name: &str) -> RateLimitDescriptor {
    descriptor(&[("user", name)])
}

/// Returns a configuration with the policy `user` for the descriptor `user`.
fn user_policy(limits: &str, rest: &str) -> String {
    format!(
        "[policies.user]\nlimits = {limits}\n{rest}\n[[envoy]]\ndomain = \"edge\"\ndescriptors = [[\"user\"]]\npolicy = \"user\"\n"
    )
}

fn codes(response: &RateLimitResponse) -> Vec<Code> {
    response.statuses.iter().map(code).collect()
}

fn code(status: &DescriptorStatus) -> Code {
    Code::try_from(status.code).expect("a known code")
}
