//! Envoy's rate limit service, asked over a real connection.

mod decisions;
mod giving_back;
mod headers;
mod health;
mod imported;
mod matching;
mod overrides;
mod reflection;
mod refusals;
mod wire;

use envoy_types::pb::{
    envoy::{
        extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
        service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse,
            rate_limit_response::{Code, DescriptorStatus},
            rate_limit_service_client::RateLimitServiceClient,
        },
    },
    google::protobuf::UInt64Value,
};
use tidegate::{Inspection, Key};
use tidegate_server::{KeyRequest, LimitSource, Price};
use tonic::{Request, Status, transport::Channel};

use crate::running::Running;

/// A service and a caller of it.
pub(crate) struct Asked {
    client: RateLimitServiceClient<Channel>,
    pub(crate) running: Running,
}

impl Asked {
    pub(crate) fn start(config: &str) -> Self {
        let running = Running::start(config);
        Self { client: RateLimitServiceClient::new(channel(&running)), running }
    }

    /// Sends a request as it is.
    fn send(&mut self, request: impl tonic::IntoRequest<RateLimitRequest>) -> Result<RateLimitResponse, Status> {
        let answer = self.client.should_rate_limit(request);
        Ok(self.running.block_on(answer)?.into_inner())
    }

    /// Asks about descriptors of the domain `edge`.
    fn ask(&mut self, descriptors: &[RateLimitDescriptor]) -> RateLimitResponse {
        self.send(request(descriptors)).expect("the request is right")
    }

    /// Asks about one descriptor.
    pub(crate) fn one(&mut self, descriptor: RateLimitDescriptor) -> DescriptorStatus {
        let answer = self.ask(&[descriptor]);
        let [status] = &*answer.statuses else { panic!("as many statuses as descriptors: {answer:?}") };
        assert_eq!(answer.overall_code, status.code, "one descriptor decides alone");
        status.clone()
    }

    /// The state of a key that is this list over HTTP.
    fn inspect(&self, policy: &str, key: &[&str]) -> Option<Inspection> {
        let service = self.running.server().service();
        let ask = KeyRequest {
            source: LimitSource::Policy(policy),
            key: Key::join(key).expect("it is a key"),
            price: Price::Cost(tidegate::Cost::ONE),
            on_failure: None,
        };
        let live = service.active_policies();
        self.running.block_on(service.inspect(&live, &ask)).expect("the policy is known")
    }

    /// How many requests were refused so far.
    fn refused(&self) -> u64 {
        self.metric("tidegate_refused_total{transport=\"grpc\"} ")
    }

    /// The number after this in the metrics.
    fn metric(&self, name: &str) -> u64 {
        let text = String::from_utf8(crate::http::client::get(self.running.http, "/metrics").body).expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|count| count.parse().ok()).expect("they are counted")
    }

    /// Units in use under each limit.
    fn used(&self, policy: &str, key: &[&str]) -> Vec<u64> {
        let found = self.inspect(policy, key);
        found.map_or(Vec::new(), |found| found.limits.iter().map(|in_use| in_use.used).collect())
    }
}

pub(crate) fn channel(running: &Running) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{}", running.grpc)).expect("it is an address");
    running.block_on(endpoint.connect()).expect("the service listens")
}

fn request(descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest { domain: "edge".to_owned(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

/// Asks about one descriptor with this token, on a connection of its own.
pub(crate) fn ask_with_token(running: &Running, token: &str) -> Result<RateLimitResponse, Status> {
    let mut client = RateLimitServiceClient::new(channel(running));
    let answer = client.should_rate_limit(with_token(request(&[user("a")]), token));
    Ok(running.block_on(answer)?.into_inner())
}

fn with_token(request: RateLimitRequest, token: &str) -> Request<RateLimitRequest> {
    let mut request = Request::new(request);
    let value = format!("Bearer {token}").parse().expect("it is a header");
    request.metadata_mut().insert("authorization", value);
    request
}

pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

pub(crate) fn hits(hits: u64, descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(UInt64Value { value: hits }), ..descriptor }
}

fn back(units: u64, descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..hits(units, descriptor) }
}

fn user(name: &str) -> RateLimitDescriptor {
    descriptor(&[("user", name)])
}

/// A policy `user` of these limits, with whatever else is said of it.
fn of_user(limits: &str, rest: &str) -> String {
    format!(
        "[policies.user]\nlimits = {limits}\n{rest}\n[[envoy]]\ndomain = \"edge\"\ndescriptors = [[\"user\"]]\npolicy = \"user\"\n"
    )
}

fn codes(answer: &RateLimitResponse) -> Vec<Code> {
    answer.statuses.iter().map(code).collect()
}

fn code(status: &DescriptorStatus) -> Code {
    Code::try_from(status.code).expect("a known code")
}
