//! The tables of a configuration file.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidegate::{Algorithm, AtCapacity, Limit, Mode};
use tidegate_tower::HeaderFormat;
use toml::Spanned;

use super::values::{FailureChoice, Listen, Net, Secret, ShareNumber, Size, Text, Time, TimeOrOff, Units};

/// A whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) server: ServerTable,
    #[serde(default)]
    pub(super) store: StoreTable,
    #[serde(default)]
    pub(super) policies: BTreeMap<Spanned<String>, Spanned<PolicyTable>>,
    #[serde(default)]
    pub(super) envoy: Vec<EnvoyTable>,
}

/// Declares a table with optional keys. Another table of the same type can replace single keys.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($(#[$key_doc:meta])* $key:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
            #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
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
    ServerTable {
        http: Listen,
        resp: Listen,
        grpc: Listen,
        tls_cert: std::path::PathBuf,
        tls_key: std::path::PathBuf,
        token: Secret,
        admin_token: Secret,
        hosts: Vec<String>,
        headers: Text<HeaderFormat>,
        trusted_proxies: Vec<Net>,
        trusted_hops: usize,
        ipv6_prefix: u64,
        caller_limits: bool,
        caller_max_window: Time,
        max_body: Size,
        max_connections: usize,
        max_connections_per_address: usize,
        max_response_memory: Size,
        header_timeout: Time,
        write_timeout: Time,
        wrong_token_delay: Time,
        idle_timeout: TimeOrOff,
        drain: Time,
        allow_removal: bool,
    }
}

table! {
    /// `[store]`.
    StoreTable {
        url: String,
        timeout: Time,
        max_keys: usize,
        max_bytes: Size,
        at_capacity: Text<AtCapacity>,
        caller_share: ShareNumber,
        prefix: String,
        tls_ca: std::path::PathBuf,
    }
}

/// `[policies.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyTable {
    pub(super) limits: Spanned<Vec<Text<Limit>>>,
    pub(super) algorithm: Option<Text<Algorithm>>,
    pub(super) mode: Option<Text<Mode>>,
    /// The policy that a shadow policy may replace.
    pub(super) candidate_for: Option<Spanned<String>>,
    pub(super) key: Option<Spanned<String>>,
    pub(super) on_store_failure: Option<FailureChoice>,
    /// Whether keys are shown to people as hashes only.
    #[serde(default)]
    pub(super) hide_keys: bool,
    #[serde(default)]
    pub(super) operations: BTreeMap<String, OperationValue>,
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
                f.write_str("a cost such as 100, or { cost = 1, on_store_failure = \"open\" }")
            }

            fn visit_i64<E: serde::de::Error>(self, cost: i64) -> Result<OperationTable, E> {
                let cost = Units::deserialize(serde::de::value::I64Deserializer::new(cost))?;
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
#[serde(deny_unknown_fields)]
pub(super) struct EnvoyTable {
    pub(super) domain: Spanned<String>,
    pub(super) descriptors: Spanned<Vec<Vec<String>>>,
    pub(super) policy: Option<Spanned<String>>,
    /// Admit without counting.
    #[serde(default)]
    pub(super) unlimited: bool,
    /// Always deny.
    #[serde(default)]
    pub(super) deny: bool,
}
