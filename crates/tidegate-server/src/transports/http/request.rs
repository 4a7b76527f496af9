//! [`Request`]: the JSON body of a request. It is converted to a [`KeyRequest`].

use std::{borrow::Cow, fmt, marker::PhantomData, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{
        MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use tidegate::{Algorithm, AtEnd, Cost, Hold, Key, Limit, OnStoreFailure, Timestamp};

use super::{problem::Problem, query::wrong};
use crate::service::{KeyRequest, LimitSource, Price, Refusal};

/// The latest time of a charge.
const LATEST_US: u64 = 9_000_000_000_000_000;

/// The body of any request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request<'a> {
    #[serde(borrow, default)]
    policy: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    key: Option<KeyForm<'a>>,
    /// The hash of the key, instead of the key.
    #[serde(borrow, default)]
    hash: Option<Cow<'a, str>>,
    cost: Option<u64>,
    #[serde(borrow, default)]
    operation: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    limits: Option<Vec<Cow<'a, str>>>,
    #[serde(borrow, default)]
    algorithm: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    on_store_failure: Option<Cow<'a, str>>,
    charged_at_us: Option<u64>,
    ttl_ms: Option<u64>,
    #[serde(borrow, default)]
    expires: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    checks: Option<Vec<Object<Request<'a>>>>,
}

/// A value that must be a JSON object. The derived implementation would also accept a list of values.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

/// A type that is written as a JSON object.
pub(super) trait JsonObject {
    /// The beginning of one, for errors.
    const EXAMPLE: &'static str;
}

impl JsonObject for Request<'_> {
    const EXAMPLE: &'static str = "{\"policy\": …, \"key\": …}";
}

impl<'de, T: Deserialize<'de> + JsonObject> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + JsonObject> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object such as {}", T::EXAMPLE)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        source.deserialize_map(Fields(PhantomData))
    }
}

/// A key: one text, or a list of texts.
#[derive(Debug)]
pub(super) enum KeyForm<'a> {
    One(Cow<'a, str>),
    Several(Vec<Cow<'a, str>>),
}

impl<'de: 'a, 'a> Deserialize<'de> for KeyForm<'a> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = KeyForm<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<KeyForm<'de>, E> {
                Ok(KeyForm::One(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<KeyForm<'de>, E> {
                Ok(KeyForm::One(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<KeyForm<'de>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(KeyForm::Several)
            }
        }
        source.deserialize_any(Either)
    }
}

impl KeyForm<'_> {
    /// Returns the key.
    pub(super) fn key(&self) -> Result<Key<'_>, Refusal> {
        let key = match self {
            Self::One(text) => Key::new(&**text),
            Self::Several(parts) => Key::join(parts.iter().map(|part| part.as_bytes())),
        };
        key.map_err(|error| Refusal::malformed("key", error))
    }
}

/// One decision, or several as one.
pub(super) enum DecisionRequest<'a> {
    One(KeyRequest<'a>),
    Several(Vec<KeyRequest<'a>>),
}

impl<'a> Request<'a> {
    /// Parses a body.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Problem> {
        read(body)
    }

    /// Returns a request for the hash of a key in a query.
    pub(crate) fn of_hash(policy: &'a str, hash: &'a str) -> Self {
        Self { policy: Some(Cow::Borrowed(policy)), hash: Some(Cow::Borrowed(hash)), ..Self::default() }
    }

    /// Returns a request for the key in a query. Several values are a list; a single value is one if `is_list` is set.
    pub(crate) fn of_query(policy: &'a str, key: Vec<&'a str>, is_list: bool) -> Self {
        let key = match key.as_slice() {
            [one] if !is_list => KeyForm::One(Cow::Borrowed(*one)),
            _ => KeyForm::Several(key.into_iter().map(Cow::Borrowed).collect()),
        };
        Self { policy: Some(Cow::Borrowed(policy)), key: Some(key), ..Self::default() }
    }

    /// Returns the request of check, peek and charge.
    pub(super) fn decision(&'a self) -> Result<DecisionRequest<'a>, Refusal> {
        self.no_hold()?;
        self.requests()
    }

    /// Returns the requests of a reserve, and the hold.
    pub(super) fn reservation(&'a self) -> Result<(DecisionRequest<'a>, Hold), Refusal> {
        let Some(ttl_ms) = self.ttl_ms else {
            return Err(Refusal::malformed("ttl_ms", "a hold needs `ttl_ms`: the time after which it ends by itself"));
        };
        let hold = Hold::new(Duration::from_millis(ttl_ms));
        let hold = match self.expires.as_deref().map(str::parse).transpose()? {
            Some(AtEnd::Spent) => hold.spent_at_end(),
            _ => hold,
        };
        Ok((self.requests()?, hold))
    }

    fn requests(&'a self) -> Result<DecisionRequest<'a>, Refusal> {
        if self.charged_at_us.is_some() {
            return Err(Refusal::malformed("charged_at_us", "only a refund has `charged_at_us`"));
        }
        let Some(checks) = &self.checks else { return self.key_request().map(DecisionRequest::One) };
        self.only_checks()?;
        let one = |Object(check): &'a Object<Request<'a>>| {
            check.no_hold()?;
            match (&check.checks, check.charged_at_us) {
                (Some(_), _) => {
                    Err(Refusal::malformed("checks", "checks can't contain further checks: write them into one list"))
                }
                (None, Some(_)) => Err(Refusal::malformed("charged_at_us", "only a refund has `charged_at_us`")),
                (None, None) => check.key_request(),
            }
        };
        let mut requests = checks.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        // The choice for all checks applies to those without their own.
        let for_all = self.on_failure()?;
        for request in &mut requests {
            request.on_failure = request.on_failure.or(for_all);
        }
        Ok(DecisionRequest::Several(requests))
    }

    /// Returns the refunds, each with the time of its charge.
    pub(super) fn refunds(&'a self) -> Result<Vec<(KeyRequest<'a>, Timestamp)>, Refusal> {
        let one = |request: &'a Self| {
            request.no_hold()?;
            let at = request
                .charged_at_us
                .ok_or_else(|| Refusal::malformed("charged_at_us", "a refund needs `charged_at_us` of the decision"))?;
            if at > LATEST_US {
                let message = format!("{at} is not the time of a charge: use at most {LATEST_US}");
                return Err(Refusal::malformed("charged_at_us", message));
            }
            Ok((request.key_request()?, Timestamp::from_micros(at)))
        };
        let Some(checks) = &self.checks else { return Ok(vec![one(self)?]) };
        self.only_checks()?;
        if !(1..=64).contains(&checks.len()) {
            return Err(Refusal::malformed(
                "checks",
                format!("the request has {} refunds: send 1 to 64", checks.len()),
            ));
        }
        checks.iter().map(|Object(check)| one(check)).collect()
    }

    pub(super) fn has_checks(&self) -> bool {
        self.checks.is_some()
    }

    /// Refuses the fields of a hold.
    fn no_hold(&self) -> Result<(), Refusal> {
        let field = if self.ttl_ms.is_some() { "ttl_ms" } else { "expires" };
        if self.ttl_ms.is_some() || self.expires.is_some() {
            let message = "only /v1/reserve has `ttl_ms` and `expires`, beside `checks` and not in them";
            return Err(Refusal::malformed(field, message));
        }
        Ok(())
    }

    fn only_checks(&self) -> Result<(), Refusal> {
        let others = self.policy.is_some()
            || self.key.is_some()
            || self.hash.is_some()
            || self.limits.is_some()
            || self.algorithm.is_some();
        if others || self.cost.is_some() || self.operation.is_some() || self.charged_at_us.is_some() {
            let message = "with `checks`, only `on_store_failure` (and `ttl_ms` and `expires` of a reserve) is permitted: write \
                           the other fields into each check";
            return Err(Refusal::malformed("checks", message));
        }
        Ok(())
    }

    /// Returns the key of a reset or an inspection.
    pub(super) fn subject(&'a self) -> Result<KeyRequest<'a>, Refusal> {
        self.no_hold()?;
        let spends = self.cost.is_some() || self.operation.is_some() || self.charged_at_us.is_some();
        if spends || self.checks.is_some() || self.on_store_failure.is_some() {
            return Err(Refusal::malformed(
                "",
                "this request accepts only `policy` (or `limits` and `algorithm`) and `key`",
            ));
        }
        self.key_request()
    }

    /// Returns the configured policy and the key.
    pub(super) fn policy_and_key(&'a self) -> Result<(&'a str, Key<'a>), Refusal> {
        let request = self.subject()?;
        match request.source {
            LimitSource::Policy(policy) => Ok((policy, request.key)),
            _ => Err(Refusal::malformed(
                "limits",
                "this request needs a policy of the configuration: use `policy` instead of `limits`",
            )),
        }
    }

    /// Returns the configured policy and the hash of the key, if the request has a hash instead of a key.
    pub(super) fn policy_and_hash(&self) -> Result<Option<(&str, &str)>, Refusal> {
        let Some(hash) = &self.hash else { return Ok(None) };
        match (&self.policy, &self.key) {
            (Some(policy), None) => Ok(Some((policy, hash))),
            (_, Some(_)) => Err(Refusal::malformed("hash", "`key` and `hash` exclude each other: use one")),
            (None, None) => Err(Refusal::malformed("policy", "`hash` needs the policy, too: set `policy`")),
        }
    }

    fn on_failure(&self) -> Result<Option<OnStoreFailure>, Refusal> {
        let choice = self.on_store_failure.as_deref().map(str::parse).transpose();
        choice.map_err(|error| Refusal::malformed("on_store_failure", error))
    }

    /// Returns this request without its checks.
    fn key_request(&'a self) -> Result<KeyRequest<'a>, Refusal> {
        if self.hash.is_some() {
            return Err(Refusal::malformed("hash", "only resets and overrides accept `hash`: set `key`"));
        }
        let source = match (&self.policy, &self.limits) {
            (Some(policy), None) if self.algorithm.is_none() => LimitSource::Policy(policy),
            (Some(_), None) => {
                return Err(Refusal::malformed("algorithm", "the policy has its own algorithm: remove `algorithm`"));
            }
            (None, Some(limits)) => {
                LimitSource::Limits(read_limits(limits)?, read_algorithm(self.algorithm.as_deref())?)
            }
            (Some(_), Some(_)) => {
                return Err(Refusal::malformed("limits", "`policy` and `limits` can't be combined: use one of them"));
            }
            (None, None) => {
                return Err(Refusal::malformed("policy", "the limit is missing: set `policy`, `limits` or `checks`"));
            }
        };
        let Some(key) = &self.key else {
            return Err(Refusal::malformed("key", "`key` is missing: set it to a string or a list of strings"));
        };
        let price = match (self.cost, &self.operation) {
            (None, Some(operation)) => Price::Operation(operation),
            (cost, None) => {
                Price::Cost(Cost::new(cost.unwrap_or(1)).map_err(|error| Refusal::malformed("cost", error))?)
            }
            (Some(_), Some(_)) => {
                return Err(Refusal::malformed("cost", "`cost` and `operation` can't be combined: use one of them"));
            }
        };
        let on_failure = self.on_failure()?;
        Ok(KeyRequest { source, key: key.key()?, price, on_failure })
    }
}

pub(super) fn read_limits(texts: &[Cow<'_, str>]) -> Result<Vec<Limit>, Refusal> {
    // A policy has at most 8 limits, so no more are parsed.
    texts.iter().take(9).map(|text| text.parse().map_err(|error| Refusal::malformed("limits", error))).collect()
}

pub(super) fn read_algorithm(text: Option<&str>) -> Result<Algorithm, Refusal> {
    let read = text.map(str::parse).transpose().map_err(|error| Refusal::malformed("algorithm", error))?;
    Ok(read.unwrap_or_default())
}

/// Parses a body that is a JSON object.
pub(super) fn read<'a, T: Deserialize<'a> + JsonObject>(body: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map(|Object(request)| request).map_err(|error| explain::<T>(body, &error))
}

/// Returns the error for a body, with the field that is wrong. It parses the body a second time, because most bodies are right.
fn explain<'a, T: Deserialize<'a> + JsonObject>(body: &'a [u8], error: &serde_json::Error) -> Problem {
    let deserializer = &mut serde_json::Deserializer::from_slice(body);
    let found = serde_path_to_error::deserialize::<_, Object<T>>(deserializer).err();
    let field = found.map_or_else(String::new, |error| error.path().to_string());
    let field = if field == "." { String::new() } else { field };
    wrong(&field, format!("the body is not a valid request: {error}"))
}
