//! [`Request`]: what a body asks for, and the [`Ask`] it comes to.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use tidegate::{Algorithm, Cost, Key, Limit, OnStoreFailure, Timestamp};

use crate::service::{Ask, By, Price, Refusal};

const LATEST: u64 = Timestamp::MAX.as_micros();

/// A body, whatever is asked with it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request<'a> {
    #[serde(borrow, default)]
    policy: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    key: Option<KeyForm<'a>>,
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
    #[serde(borrow, default)]
    checks: Option<Vec<Object<'a>>>,
}

/// A request that is written as an object. Read by itself, a list of its values in order would do, too.
#[derive(Debug)]
struct Object<'a>(Request<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object such as {\"policy\": …, \"key\": …}")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<'de>, A::Error> {
                Request::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        source.deserialize_map(Fields)
    }
}

/// A key: one text, or several that are joined.
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
                f.write_str("a text or a list of texts")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<KeyForm<'de>, E> {
                Ok(KeyForm::One(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<KeyForm<'de>, E> {
                Ok(KeyForm::One(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<KeyForm<'de>, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = seq.next_element()? {
                    parts.push(part);
                }
                Ok(KeyForm::Several(parts))
            }
        }
        source.deserialize_any(Either)
    }
}

impl KeyForm<'_> {
    /// The key.
    pub(super) fn key(&self) -> Result<Key<'_>, Refusal> {
        let key = match self {
            Self::One(text) => Key::new(&**text),
            Self::Several(parts) => Key::join(parts.iter().map(|part| part.as_bytes())),
        };
        key.map_err(|error| Refusal::malformed("key", error))
    }
}

/// What a request asks for: one decision, or several as one.
pub(super) enum Asked<'a> {
    One(Ask<'a>),
    Several(Vec<Ask<'a>>),
}

impl<'a> Request<'a> {
    /// Reads a body; what is wrong with it is told by the field it is in.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, (String, String)> {
        serde_json::from_slice(body).map(|Object(request)| request).map_err(|error| explain(body, &error))
    }

    /// Takes a query apart into a request, as `/v1/inspect` has it: several keys are a list, and one is if that is said.
    pub(super) fn of_query(policy: &'a str, key: Vec<&'a str>, is_list: bool) -> Self {
        let key = match key.as_slice() {
            [one] if !is_list => KeyForm::One(Cow::Borrowed(*one)),
            _ => KeyForm::Several(key.into_iter().map(Cow::Borrowed).collect()),
        };
        Self { policy: Some(Cow::Borrowed(policy)), key: Some(key), ..Self::default() }
    }

    /// What check, peek and charge are asked for.
    pub(super) fn asked(&'a self) -> Result<Asked<'a>, Refusal> {
        if self.charged_at_us.is_some() {
            return Err(Refusal::malformed("charged_at_us", "only a refund says when it was charged"));
        }
        let Some(checks) = &self.checks else { return self.ask().map(Asked::One) };
        self.nothing_beside_checks()?;
        let one = |Object(check): &'a Object<'a>| match (&check.checks, check.charged_at_us) {
            (Some(_), _) => Err(Refusal::malformed("checks", "checks can't hold further checks: list them all in one")),
            (None, Some(_)) => Err(Refusal::malformed("charged_at_us", "only a refund says when it was charged")),
            (None, None) => check.ask(),
        };
        let mut asks = checks.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        // What the call says for all, each can say otherwise.
        let for_all = self.on_failure()?;
        for ask in &mut asks {
            ask.on_failure = ask.on_failure.or(for_all);
        }
        Ok(Asked::Several(asks))
    }

    /// What a refund is asked for: each with the moment that it goes back to.
    pub(super) fn refunds(&'a self) -> Result<Vec<(Ask<'a>, Timestamp)>, Refusal> {
        let one = |request: &'a Self| {
            let at = request.charged_at_us.ok_or_else(|| {
                Refusal::malformed("charged_at_us", "a refund needs `charged_at_us`, as the decision told it")
            })?;
            if at > LATEST {
                let message = format!("{at} is no time of a charge: times end at {LATEST}");
                return Err(Refusal::malformed("charged_at_us", message));
            }
            Ok((request.ask()?, Timestamp::from_micros(at)))
        };
        let Some(checks) = &self.checks else { return Ok(vec![one(self)?]) };
        self.nothing_beside_checks()?;
        if !(1..=64).contains(&checks.len()) {
            return Err(Refusal::malformed("checks", format!("{} refunds at once: use 1 to 64", checks.len())));
        }
        checks.iter().map(|Object(check)| one(check)).collect()
    }

    pub(super) fn has_checks(&self) -> bool {
        self.checks.is_some()
    }

    fn nothing_beside_checks(&self) -> Result<(), Refusal> {
        let beside = self.policy.is_some() || self.key.is_some() || self.limits.is_some() || self.algorithm.is_some();
        if beside || self.cost.is_some() || self.operation.is_some() || self.charged_at_us.is_some() {
            let message = "beside `checks`, only `on_store_failure` can be said: the rest belongs into each of them";
            return Err(Refusal::malformed("checks", message));
        }
        Ok(())
    }

    /// Whom a reset or an inspection is about.
    pub(super) fn subject(&'a self) -> Result<Ask<'a>, Refusal> {
        let spends = self.cost.is_some() || self.operation.is_some() || self.charged_at_us.is_some();
        if spends || self.checks.is_some() || self.on_store_failure.is_some() {
            return Err(Refusal::malformed(
                "",
                "this takes `policy` (or `limits` and `algorithm`) and `key`, nothing else",
            ));
        }
        self.ask()
    }

    /// The policy and the key of what is about a policy of the configuration only.
    pub(super) fn policy_and_key(&'a self) -> Result<(&'a str, Key<'a>), Refusal> {
        let ask = self.subject()?;
        match ask.by {
            By::Policy(policy) => Ok((policy, ask.key)),
            _ => Err(Refusal::malformed("limits", "limits that a caller brings are not overridden: name a `policy`")),
        }
    }

    fn on_failure(&self) -> Result<Option<OnStoreFailure>, Refusal> {
        let choice = self.on_store_failure.as_deref().map(str::parse).transpose();
        choice.map_err(|error| Refusal::malformed("on_store_failure", error))
    }

    /// This request alone.
    fn ask(&'a self) -> Result<Ask<'a>, Refusal> {
        let by = match (&self.policy, &self.limits) {
            (Some(policy), None) if self.algorithm.is_none() => By::Policy(policy),
            (Some(_), None) => {
                return Err(Refusal::malformed("algorithm", "the policy knows its algorithm: leave `algorithm` out"));
            }
            (None, Some(limits)) => By::Limits(read_limits(limits)?, read_algorithm(self.algorithm.as_deref())?),
            (Some(_), Some(_)) => {
                return Err(Refusal::malformed(
                    "limits",
                    "`policy` and `limits` are two ways to say the limit: use one",
                ));
            }
            (None, None) => {
                return Err(Refusal::malformed("policy", "by which limit? Give `policy`, `limits` or `checks`"));
            }
        };
        let Some(key) = &self.key else {
            return Err(Refusal::malformed("key", "who is counted? Give `key`, a text or a list of texts"));
        };
        let price = match (self.cost, &self.operation) {
            (None, Some(operation)) => Price::Operation(operation),
            (cost, None) => {
                Price::Cost(Cost::new(cost.unwrap_or(1)).map_err(|error| Refusal::malformed("cost", error))?)
            }
            (Some(_), Some(_)) => {
                return Err(Refusal::malformed("cost", "`cost` and `operation` are two ways to say the cost: use one"));
            }
        };
        let on_failure = self.on_failure()?;
        Ok(Ask { by, key: key.key()?, price, on_failure })
    }
}

fn read_limits(texts: &[Cow<'_, str>]) -> Result<Vec<Limit>, Refusal> {
    // No more than can be right are read.
    texts.iter().take(9).map(|text| text.parse().map_err(|error| Refusal::malformed("limits", error))).collect()
}

fn read_algorithm(text: Option<&str>) -> Result<Algorithm, Refusal> {
    let read = text.map(str::parse).transpose().map_err(|error| Refusal::malformed("algorithm", error))?;
    Ok(read.unwrap_or_default())
}

/// The field that a body is wrong in, and how. It is read a second time for that: most bodies are right.
fn explain(body: &[u8], error: &serde_json::Error) -> (String, String) {
    let deserializer = &mut serde_json::Deserializer::from_slice(body);
    let found = serde_path_to_error::deserialize::<_, Object<'_>>(deserializer).err();
    let field = found.map_or_else(String::new, |error| error.path().to_string());
    let field = if field == "." { String::new() } else { field };
    (field, format!("the body is not a request: {error}"))
}
