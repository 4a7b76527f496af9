//! Turns each descriptor of a request into an [`Action`].

use std::{collections::HashMap, time::Duration};

use tidegate::{Cost, Key, Limit};
use tonic::Status;

use super::{
    proto::{RateLimitDescriptor, RateLimitOverride, RateLimitRequest, Unit},
    status::window_of,
};
use crate::{
    config::{DescriptorAction, Policies},
    service::{KeyRequest, LimitSource, Price},
    transports::long_key,
};

/// Maximum number of descriptors in a request. It is the maximum number of parts of one decision.
const MAX_DESCRIPTORS: usize = 64;

/// Maximum number of entries in a descriptor.
const MAX_ENTRIES: usize = 64;

/// Maximum cost of one decision.
pub(super) const MAX_HITS: u64 = 1_000_000_000_000;

/// The action that a descriptor requests.
#[derive(Debug)]
pub(super) enum Action<'r> {
    /// No rule matches: do nothing.
    Ignore,
    /// A rule declares the descriptor unlimited.
    Unlimited,
    /// A rule or a limit of zero denies the descriptor. The unit is that of the limit of zero, if there is one.
    Deny(Option<Unit>),
    /// Spend units.
    Spend(KeyRequest<'r>),
    /// Check whether one hit would be admitted, without spending.
    Peek(KeyRequest<'r>),
    /// Refund units.
    Refund(KeyRequest<'r>),
}

/// Returns the action of each descriptor of a request.
pub(super) fn parse<'r>(policies: &'r Policies, request: &'r RateLimitRequest) -> Result<Vec<Action<'r>>, Status> {
    let malformed = |message: String| Err(Status::invalid_argument(message));
    if request.domain.is_empty() {
        return malformed("the domain is empty: set `domain` in Envoy's rate limit filter".to_owned());
    }
    let descriptors = &request.descriptors;
    if !(1..=MAX_DESCRIPTORS).contains(&descriptors.len()) {
        return malformed(format!("the request has {} descriptors: send 1 to {MAX_DESCRIPTORS}", descriptors.len()));
    }
    if let Some(wrong) = descriptors.iter().position(|one| one.entries.len() > MAX_ENTRIES) {
        let entries = descriptors[wrong].entries.len();
        return malformed(format!("descriptor {wrong} has {entries} entries: send at most {MAX_ENTRIES}"));
    }
    let actions = descriptors.iter().map(|descriptor| action(policies, request, descriptor));
    let mut actions = actions.collect::<Result<Vec<_>, _>>()?;
    cap_costs(&mut actions);
    Ok(actions)
}

/// Lowers the costs of descriptors with the same key, so that their sum does not exceed [`MAX_HITS`]: they are one decision.
fn cap_costs(actions: &mut [Action<'_>]) {
    let cost = |action: &Action<'_>| match action {
        Action::Spend(KeyRequest { price: Price::Cost(cost), .. }) => cost.get(),
        _ => 0,
    };
    if actions.iter().map(cost).sum::<u64>() <= MAX_HITS {
        return;
    }
    let mut by_key: HashMap<&Key<'_>, Vec<&mut Cost>> = HashMap::new();
    for action in actions {
        if let Action::Spend(KeyRequest { key, price: Price::Cost(cost), .. }) = action {
            by_key.entry(key).or_default().push(cost);
        }
    }
    for costs in by_key.into_values() {
        let (mut left, mut following) = (MAX_HITS, costs.len() as u64);
        for cost in costs {
            // Every following cost keeps at least one unit.
            following -= 1;
            *cost = Cost::new(cost.get().min(left - following)).expect("the cost is at least one");
            left -= cost.get();
        }
    }
}

fn action<'r>(
    policies: &'r Policies,
    request: &'r RateLimitRequest,
    descriptor: &'r RateLimitDescriptor,
) -> Result<Action<'r>, Status> {
    let entries: Vec<(&[u8], &[u8])> = descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value)).collect();
    let hits = match &descriptor.hits_addend {
        Some(hits) => *hits,
        None => u64::from(request.hits_addend.max(1)),
    };
    let rule = policies.descriptor(&request.domain, &entries);
    let (source, key) = match (&descriptor.limit, rule) {
        (Some(supplied), rule) => {
            let name = match rule {
                Some(DescriptorAction::Policy(name)) => Some(&**name),
                _ => None,
            };
            let (unit, window) = unit_and_window(*supplied)?;
            match Limit::new(supplied.requests_per_unit.into(), window) {
                Ok(limit) => (LimitSource::EnvoyOverride(limit, name), key(Some(&request.domain), &entries)),
                Err(_) => return Ok(deny(Some(unit), descriptor.is_negative_hits)),
            }
        }
        (None, Some(DescriptorAction::Policy(name))) => (LimitSource::Policy(name), key(None, &entries)),
        (None, Some(DescriptorAction::Unlimited)) => return Ok(Action::Unlimited),
        (None, Some(DescriptorAction::Denied)) => return Ok(deny(None, descriptor.is_negative_hits)),
        (None, None) => return Ok(Action::Ignore),
    };
    // Every limit denies a cost above the maximum. An error would admit the request: by default, Envoy continues when its rate
    // limit service returns an error.
    let cost = Cost::new(hits.clamp(1, MAX_HITS)).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let key_request = KeyRequest { source, key, price: Price::Cost(cost), on_failure: None };
    Ok(match hits {
        0 => Action::Peek(key_request),
        _ if descriptor.is_negative_hits => Action::Refund(key_request),
        _ => Action::Spend(key_request),
    })
}

/// Denies a descriptor, unless it has negative hits: it has nothing to refund.
fn deny<'r>(unit: Option<Unit>, is_negative_hits: bool) -> Action<'r> {
    if is_negative_hits { Action::Ignore } else { Action::Deny(unit) }
}

/// Returns the unit of a limit that Envoy supplies, and its length.
fn unit_and_window(supplied: RateLimitOverride) -> Result<(Unit, Duration), Status> {
    let unit = Unit::try_from(supplied.unit).unwrap_or(Unit::Unknown);
    let window = window_of(unit).ok_or_else(|| {
        let message = format!("a limit override with unit {} is not supported: use SECOND to YEAR", supplied.unit);
        Status::invalid_argument(message)
    })?;
    Ok((unit, window))
}

/// Returns the key of a descriptor: the names and values of all entries in order. Without a policy, whose name would separate
/// the keys of different domains, the domain comes first. Over HTTP, a key is the list `["remote_address", "203.0.113.7"]`.
///
/// A descriptor that is too long for a key is counted by its digest. No other descriptor has the same key, because the
/// key of a digest has an odd number of parts, or no domain.
fn key(domain: Option<&str>, entries: &[(&[u8], &[u8])]) -> Key<'static> {
    let parts =
        || domain.map(str::as_bytes).into_iter().chain(entries.iter().flat_map(|(name, value)| [*name, *value]));
    Key::join(parts()).unwrap_or_else(|_| long_key::digest(parts()))
}
