//! The tables of a configuration file.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidegate::{Algorithm, AtCapacity, Limit, Mode};
use tidegate_tower::HeaderFormat;
use toml::Spanned;

use super::values::{
    Count, FailureChoice, FromToml as _, List, Listen, Net, Plain, Secret, ShareNumber, Size, Switch, TableOnly, Text,
    Time, TimeOrOff, Units,
};

/// A whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) server: ServerTable,
    #[serde(default)]
    pub(super) store: StoreTable,
    #[serde(default)]
    pub(super) policies: BTreeMap<Spanned<String>, TableOnly<PolicyTable>>,
    #[serde(default)]
    pub(super) envoy: List<EnvoyTable>,
}

/// Declares a table with optional keys. Another table of the same type can replace single keys.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident, $expecting:literal { $($(#[$key_doc:meta])* $key:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(deny_unknown_fields, expecting = $expecting)]
        pub(super) struct $name {
            $($(#[$key_doc])* pub(super) $key: Option<$type>,)*
        }

        impl $name {
            /// Returns this table with the keys of the other one, where it has them.
            pub(super) fn replaced_by(self, other: Self) -> Self {
                Self { $($key: other.$key.or(self.$key),)* }
            }
        }
    };
}

table! {
    /// `[server]`.
    ServerTable, "a table: write a line `[server]`, and the settings below it" {
        http: Listen,
        resp: Listen,
        grpc: Listen,
        tls_cert: Plain,
        tls_key: Plain,
        token: Secret,
        admin_token: Secret,
        hosts: List<Plain>,
        headers: Text<HeaderFormat>,
        trusted_proxies: List<Net>,
        trusted_hops: Count,
        ipv6_prefix: Count,
        caller_limits: Switch,
        caller_max_window: Time,
        max_body: Size,
        max_connections: Count,
        max_connections_per_address: Count,
        max_response_memory: Size,
        header_timeout: Time,
        write_timeout: Time,
        wrong_token_delay: Time,
        idle_timeout: TimeOrOff,
        drain: Time,
        allow_removal: Switch,
    }
}

table! {
    /// `[store]`.
    StoreTable, "a table: write a line `[store]`, and the settings below it" {
        url: Plain,
        timeout: Time,
        max_keys: Count,
        max_bytes: Size,
        at_capacity: Text<AtCapacity>,
        caller_share: ShareNumber,
        prefix: Plain,
        tls_ca: Plain,
    }
}

/// `[policies.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyTable {
    pub(super) limits: Spanned<List<Text<Limit>>>,
    pub(super) algorithm: Option<Text<Algorithm>>,
    pub(super) mode: Option<Text<Mode>>,
    /// The policy that a shadow policy may replace.
    pub(super) candidate_for: Option<Spanned<Plain>>,
    pub(super) key: Option<Spanned<Plain>>,
    pub(super) on_store_failure: Option<FailureChoice>,
    /// Whether keys are shown to people as hashes only.
    pub(super) hide_keys: Option<Switch>,
    /// The longest ttl of a hold.
    pub(super) max_hold: Option<Spanned<Time>>,
    /// The longest ttl of a lease.
    pub(super) max_lease: Option<Spanned<Time>>,
    /// The maximum number of open reservations of a key.
    pub(super) max_reservations: Option<Spanned<Count>>,
    /// The term of the leases of nodes.
    pub(super) lease: Option<Spanned<Time>>,
    /// The longest time for which a node that leases repeats a denial.
    pub(super) deny_cache: Option<Time>,
    #[serde(default)]
    pub(super) operations: BTreeMap<String, Spanned<OperationValue>>,
}

/// An operation: its cost, or a table.
#[derive(Debug)]
pub(super) struct OperationValue(pub(super) OperationTable);

/// The cost of an operation, and what to do when the store fails.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OperationTable {
    pub(super) cost: Units,
    pub(super) on_store_failure: Option<FailureChoice>,
}

impl<'de> Deserialize<'de> for OperationValue {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> serde::de::Visitor<'de> for Either {
            type Value = OperationTable;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an operation: write its cost, as in `\"search.list\" = 100`, or `{ cost = 1, on_store_failure = \"open\" }`")
            }

            fn visit_i64<E: serde::de::Error>(self, cost: i64) -> Result<OperationTable, E> {
                let cost = Units::from_toml(toml::Value::Integer(cost)).map_err(E::custom)?;
                Ok(OperationTable { cost, on_store_failure: None })
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<OperationTable, E> {
                let cost = Units::from_toml(toml::Value::String(text.to_owned())).map_err(E::custom)?;
                Ok(OperationTable { cost, on_store_failure: None })
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<OperationTable, A::Error> {
                OperationTable::deserialize(serde::de::value::MapAccessDeserializer::new(map))
            }
        }
        source.deserialize_any(Either).map(Self)
    }
}

/// One of `[[envoy]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table: write a line `[[envoy]]`, and `domain` and `descriptors` below it")]
pub(super) struct EnvoyTable {
    pub(super) domain: Spanned<Plain>,
    pub(super) descriptors: Spanned<List<List<Plain>>>,
    pub(super) policy: Option<Spanned<Plain>>,
    /// Admit without counting.
    pub(super) unlimited: Option<Switch>,
    /// Always deny.
    pub(super) deny: Option<Switch>,
}
