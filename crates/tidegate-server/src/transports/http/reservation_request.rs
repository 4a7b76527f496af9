//! The bodies of the requests about reservations, other than reserve.

use std::{borrow::Cow, fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use tidegate::{Cost, Key, Lease, ReservationError};

use super::request::{JsonObject, KeyForm, Object};
use crate::service::Refusal;

/// The body of commit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommitInput<'a> {
    #[serde(borrow)]
    pub(super) reservation: Cow<'a, str>,
    pub(super) actual: Amounts,
}

/// The body of release.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseInput<'a> {
    #[serde(borrow)]
    pub(super) reservation: Cow<'a, str>,
}

/// The body of renew.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RenewInput<'a> {
    #[serde(borrow)]
    pub(super) reservation: Cow<'a, str>,
    pub(super) ttl_ms: u64,
}

/// The body of settle, and an earlier lease in the body of lease.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettleInput<'a> {
    #[serde(borrow)]
    pub(super) reservation: Cow<'a, str>,
    pub(super) spent: u64,
}

/// The body of lease.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseInput<'a> {
    #[serde(borrow)]
    pub(super) policy: Cow<'a, str>,
    #[serde(borrow)]
    key: KeyForm<'a>,
    asked: u64,
    least: Option<u64>,
    pub(super) ttl_ms: u64,
    least_ttl_ms: Option<u64>,
    #[serde(borrow, default)]
    settle: Option<Object<SettleInput<'a>>>,
}

impl JsonObject for CommitInput<'_> {
    const EXAMPLE: &'static str = "{\"reservation\": …, \"actual\": …}";
}

impl JsonObject for ReleaseInput<'_> {
    const EXAMPLE: &'static str = "{\"reservation\": …}";
}

impl JsonObject for RenewInput<'_> {
    const EXAMPLE: &'static str = "{\"reservation\": …, \"ttl_ms\": …}";
}

impl JsonObject for SettleInput<'_> {
    const EXAMPLE: &'static str = "{\"reservation\": …, \"spent\": …}";
}

impl JsonObject for LeaseInput<'_> {
    const EXAMPLE: &'static str = "{\"policy\": …, \"key\": …, \"asked\": …, \"ttl_ms\": …}";
}

impl LeaseInput<'_> {
    /// Returns the key and the lease.
    pub(super) fn lease(&self) -> Result<(Key<'_>, Lease), Refusal> {
        let cost = |field, units| Cost::new(units).map_err(|error| Refusal::malformed(field, error));
        let asked = cost("asked", self.asked)?;
        let lease = Lease::new(asked, Duration::from_millis(self.ttl_ms));
        let lease = match self.least {
            Some(units) => lease.least(cost("least", units)?),
            None => lease,
        };
        let lease = match self.least_ttl_ms {
            Some(millis) => lease.least_ttl(Duration::from_millis(millis)),
            None => lease,
        };
        let lease = match &self.settle {
            Some(Object(SettleInput { reservation, spent })) => {
                let wrong = |error: ReservationError| Refusal::malformed("settle.reservation", error);
                lease.settling(reservation.parse().map_err(wrong)?, *spent)
            }
            None => lease,
        };
        Ok((self.key.key()?, lease))
    }
}

/// The actual costs of a hold: one for all of its requests, or a list.
#[derive(Debug)]
pub(super) enum Amounts {
    One([u64; 1]),
    Several(Vec<u64>),
}

impl Amounts {
    pub(super) fn units(&self) -> &[u64] {
        match self {
            Self::One(one) => one,
            Self::Several(several) => several,
        }
    }
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Amounts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of 0 or more, or a list of such numbers")
            }

            fn visit_u64<E>(self, units: u64) -> Result<Amounts, E> {
                Ok(Amounts::One([units]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Amounts, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Amounts::Several)
            }
        }
        source.deserialize_any(Either)
    }
}
