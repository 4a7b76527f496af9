//! What each descriptor of a request asks for.

use std::{collections::HashMap, time::Duration};

use envoy_types::pb::envoy::{
    extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride,
    service::ratelimit::v3::rate_limit_response::rate_limit::Unit,
};
use tidegate::{Cost, Key, Limit};
use tonic::Status;

use super::{
    message::{RateLimitDescriptor, RateLimitRequest},
    status::window_of,
};
use crate::{
    config::{Policies, Verdict},
    service::{Ask, By, Price},
    transports::long_key,
};

/// The most descriptors in a request: as many as one decision can have.
const MAX_DESCRIPTORS: usize = 64;

/// The most entries in a descriptor.
const MAX_ENTRIES: usize = 64;

const MAX_HITS: u64 = Cost::MAX.get();

/// What one descriptor asks for.
#[derive(Debug)]
pub(super) enum Wish<'r> {
    /// There is no rule for it.
    Free,
    /// A rule says that it is not limited.
    Unlimited,
    /// A rule or the override says that it is never let through.
    Denied(Option<(Unit, Duration)>),
    /// To spend.
    Spend(Ask<'r>),
    /// To look whether a hit would fit.
    Look(Ask<'r>),
    /// To have units given back.
    GiveBack(Ask<'r>),
}

/// Reads a request.
pub(super) fn read<'r>(policies: &'r Policies, request: &'r RateLimitRequest) -> Result<Vec<Wish<'r>>, Status> {
    let malformed = |message: String| Err(Status::invalid_argument(message));
    if request.domain.is_empty() {
        return malformed("the domain is empty: Envoy's filter has it as `domain`".to_owned());
    }
    let descriptors = &request.descriptors;
    if !(1..=MAX_DESCRIPTORS).contains(&descriptors.len()) {
        return malformed(format!("{} descriptors: use 1 to {MAX_DESCRIPTORS}", descriptors.len()));
    }
    if let Some(wrong) = descriptors.iter().position(|one| one.entries.len() > MAX_ENTRIES) {
        let entries = descriptors[wrong].entries.len();
        return malformed(format!("descriptor {wrong} has {entries} entries: use {MAX_ENTRIES} at the most"));
    }
    let wishes = descriptors.iter().map(|descriptor| wish(policies, request, descriptor));
    let mut wishes = wishes.collect::<Result<Vec<_>, _>>()?;
    cap(&mut wishes);
    Ok(wishes)
}

/// Takes from costs of the same key what they add up to beyond the most that a cost can be: together they are one request.
fn cap(wishes: &mut [Wish<'_>]) {
    let cost = |wish: &Wish<'_>| match wish {
        Wish::Spend(Ask { price: Price::Cost(cost), .. }) => cost.get(),
        _ => 0,
    };
    if wishes.iter().map(cost).sum::<u64>() <= MAX_HITS {
        return;
    }
    let mut by_key: HashMap<&Key<'_>, Vec<&mut Cost>> = HashMap::new();
    for wish in wishes {
        if let Wish::Spend(Ask { key, price: Price::Cost(cost), .. }) = wish {
            by_key.entry(key).or_default().push(cost);
        }
    }
    for costs in by_key.into_values() {
        let (mut left, mut to_come) = (MAX_HITS, costs.len() as u64);
        for cost in costs {
            // One is left for each that comes after.
            to_come -= 1;
            *cost = Cost::new(cost.get().min(left - to_come)).expect("it is one at least");
            left -= cost.get();
        }
    }
}

fn wish<'r>(
    policies: &'r Policies,
    request: &'r RateLimitRequest,
    descriptor: &'r RateLimitDescriptor,
) -> Result<Wish<'r>, Status> {
    let entries: Vec<(&[u8], &[u8])> = descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value)).collect();
    let hits = match &descriptor.hits_addend {
        Some(own) => own.value,
        None => u64::from(request.hits_addend.max(1)),
    };
    let rule = policies.descriptor(&request.domain, &entries);
    let (by, key) = match (&descriptor.limit, rule) {
        (Some(limit), rule) => {
            let name = match rule {
                Some(Verdict::Policy(name)) => Some(&**name),
                _ => None,
            };
            match overriding(*limit)? {
                Override::Limit(limit) => (By::Override(limit, name), key(Some(&request.domain), &entries)),
                Override::Nothing(unit, window) => {
                    return Ok(denied(Some((unit, window)), descriptor.is_negative_hits));
                }
            }
        }
        (None, Some(Verdict::Policy(name))) => (By::Policy(name), key(None, &entries)),
        (None, Some(Verdict::Unlimited)) => return Ok(Wish::Unlimited),
        (None, Some(Verdict::Denied)) => return Ok(denied(None, descriptor.is_negative_hits)),
        (None, None) => return Ok(Wish::Free),
    };
    // A cost beyond all limits is denied by every one of them. Refused as malformed, it would be let through: Envoy goes on
    // where its service answers with an error, unless it is told otherwise.
    let cost = Cost::new(hits.clamp(1, MAX_HITS)).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let ask = Ask { by, key, price: Price::Cost(cost), on_failure: None };
    Ok(match hits {
        0 => Wish::Look(ask),
        _ if descriptor.is_negative_hits => Wish::GiveBack(ask),
        _ => Wish::Spend(ask),
    })
}

/// What is never let through can still be given back to, of which nothing comes.
fn denied<'r>(limit: Option<(Unit, Duration)>, is_negative_hits: bool) -> Wish<'r> {
    if is_negative_hits { Wish::Free } else { Wish::Denied(limit) }
}

/// What Envoy brings along.
enum Override {
    Limit(Limit),
    /// Of a unit and its length, nothing.
    Nothing(Unit, Duration),
}

fn overriding(limit: RateLimitOverride) -> Result<Override, Status> {
    // Its own enumeration has no week yet; the numbers are the same as those of the answer's.
    let unit = Unit::try_from(limit.unit).unwrap_or(Unit::Unknown);
    let Some(window) = window_of(unit) else {
        let message = format!("a limit override of unit {} can't be honoured: use SECOND to YEAR", limit.unit);
        return Err(Status::invalid_argument(message));
    };
    let limit = Limit::new(limit.requests_per_unit.into(), window);
    Ok(limit.map_or(Override::Nothing(unit, window), Override::Limit))
}

/// The key of a descriptor: the names and values of all its entries in turn, after the domain where no policy's name tells
/// whose they are. Over HTTP, it is the list `["remote_address", "203.0.113.7"]`.
///
/// A descriptor that is too long for a key is counted by its digest. No other descriptor has the same key, because the
/// key of a digest has an odd number of parts, or no domain.
fn key(domain: Option<&str>, entries: &[(&[u8], &[u8])]) -> Key<'static> {
    let parts =
        || domain.map(str::as_bytes).into_iter().chain(entries.iter().flat_map(|(name, value)| [*name, *value]));
    Key::join(parts()).unwrap_or_else(|_| long_key::digest(parts()))
}
