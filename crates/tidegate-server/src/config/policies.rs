//! [`Policies`]: the part of a configuration that is replaced while the service runs.

use std::{collections::BTreeMap, ops::Range};

use hashbrown::HashMap;
use tidegate::{Cost, Limit, Mode, Policy, ReservationBounds, ReservationError, format_duration};
use tidegate_tower::{KeySource, KeySourceError, Labels};
use toml::Spanned;

use super::{
    descriptors::{DescriptorAction, Descriptors},
    error::{ConfigError, Origin, nearest},
    file::{EnvoyTable, OperationValue, PolicyTable},
    values::{Count, List, Plain, Switch, TableOnly, Time},
};

/// The policy name for the keys of `CL.THROTTLE`. A policy of a file can't have it.
pub const RESERVED_NAME: &str = "CL.THROTTLE";

/// Maximum number of policies in a file: each has its own metrics.
const MAX_POLICIES: usize = 10_000;

/// All policies, and the rules for Envoy descriptors.
#[derive(Debug, Default)]
pub struct Policies {
    // Only a file adds names, so a fast hash is enough.
    by_name: HashMap<Box<str>, ConfiguredPolicy>,
    envoy: Vec<EnvoyRule>,
    descriptors: Descriptors,
}

/// A policy and its settings in a configuration.
#[derive(Debug)]
pub struct ConfiguredPolicy {
    /// The policy.
    pub policy: Policy,
    /// Where the key of a forwarded request comes from.
    pub key: KeySource,
    /// Whether keys are shown to people as hashes only.
    pub hide_keys: bool,
    /// The policy that this shadow policy may replace. The dashboard compares the two.
    pub candidate_for: Option<String>,
    /// Its index among all policies, sorted by name.
    pub(crate) index: usize,
    /// Its labels in response headers.
    pub(crate) labels: Labels,
    operations: BTreeMap<String, Operation>,
}

/// A named kind of request with its own cost.
#[derive(Debug)]
pub struct Operation {
    /// The cost.
    pub cost: Cost,
    /// The policy, with the choice of this operation for store failures.
    pub policy: Policy,
}

/// A rule for Envoy descriptors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvoyRule {
    /// The domain of the request.
    pub domain: String,
    /// The entries of the descriptor, in order.
    pub entries: Vec<EntryMatch>,
    /// What the rule does.
    pub action: DescriptorAction,
}

/// A pattern for one entry of a descriptor. The order is from the most specific to the least.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryMatch {
    /// `key=value`
    Exact(String, String),
    /// `key=value*`: a value with this prefix.
    Prefix(String, String),
    /// `key`: any value.
    Any(String),
}

impl Policies {
    pub(super) fn new(
        tables: BTreeMap<Spanned<String>, TableOnly<PolicyTable>>,
        envoy: Vec<EnvoyTable>,
        origin: &Origin<'_>,
    ) -> Result<Self, ConfigError> {
        if tables.len() > MAX_POLICIES {
            return Err(origin.error(None, format!("{} policies: use at most {MAX_POLICIES}", tables.len())));
        }
        let names: Vec<String> = tables.keys().map(|name| name.get_ref().clone()).collect();
        let mut by_name = HashMap::with_capacity(tables.len());
        for (index, (name, table)) in tables.into_iter().enumerate() {
            let span = name.span();
            let name = name.into_inner();
            if name == RESERVED_NAME {
                let message = format!("policy `{name}`: this name is reserved for the command: use another");
                return Err(origin.error(Some(span), message));
            }
            let table = table.0;
            if let Some(candidate_for) = &table.candidate_for {
                check_candidate(&name, candidate_for, &table, &names, origin)?;
            }
            let configured = ConfiguredPolicy::new(&name, index, table, span, origin)?;
            by_name.insert(name.into_boxed_str(), configured);
        }
        let (mut rules, mut descriptors) = (Vec::new(), Descriptors::default());
        for table in envoy {
            let span = table.descriptors.span();
            if table.descriptors.get_ref().0.is_empty() {
                return Err(
                    origin.error(Some(span), "`descriptors` is empty: list at least one, such as [\"remote_address\"]")
                );
            }
            for rule in envoy_rules(table, &by_name, origin)? {
                if !descriptors.add(&rule) {
                    let entries: Vec<String> = rule.entries.iter().map(ToString::to_string).collect();
                    let message = format!("a second rule for `{entries:?}` in `{}`: keep one of them", rule.domain);
                    return Err(origin.error(Some(span), message));
                }
                rules.push(rule);
            }
        }
        Ok(Self { by_name, envoy: rules, descriptors })
    }

    /// Makes policies of code, for a program that contains the service. Those without a name are left out, and the last one
    /// with a name replaces the others.
    pub fn of(policies: impl IntoIterator<Item = Policy>) -> Self {
        let mut by_name: HashMap<Box<str>, ConfiguredPolicy> = HashMap::new();
        for policy in policies {
            let Some(name) = policy.name().map(Box::from) else { continue };
            let index = by_name.get(&name).map_or(by_name.len(), |known| known.index);
            by_name.insert(name, ConfiguredPolicy::of(policy, index));
        }
        Self { by_name, ..Self::default() }
    }

    /// Returns the policy with this name.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&ConfiguredPolicy> {
        self.by_name.get(name)
    }

    /// Returns the name that is most similar to an unknown one, if one is.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, &self.by_name.keys().map(AsRef::as_ref).collect::<Vec<_>>())
    }

    /// Returns all policies, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ConfiguredPolicy)> {
        let mut all: Vec<_> = self.by_name.iter().map(|(name, configured)| (&**name, configured)).collect();
        all.sort_by_key(|(_, configured)| configured.index);
        all.into_iter()
    }

    /// Returns the number of policies.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns whether there are no policies.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the rules for Envoy descriptors.
    pub fn envoy(&self) -> &[EnvoyRule] {
        &self.envoy
    }

    /// Returns the action for a descriptor with these names and values, if a rule matches.
    pub(crate) fn descriptor(&self, domain: &str, entries: &[(&[u8], &[u8])]) -> Option<&DescriptorAction> {
        self.descriptors.find(domain, entries)
    }
}

impl ConfiguredPolicy {
    fn of(policy: Policy, index: usize) -> Self {
        let labels = Labels::new(&policy);
        let (key, operations) = (KeySource::ClientIp, BTreeMap::new());
        Self { policy, key, hide_keys: false, candidate_for: None, index, labels, operations }
    }

    fn new(
        name: &str,
        index: usize,
        table: PolicyTable,
        span: Range<usize>,
        origin: &Origin<'_>,
    ) -> Result<Self, ConfigError> {
        let error = |span, message: String| origin.error(Some(span), format!("policy `{name}`: {message}"));
        let limits_span = table.limits.span();
        let limits: Vec<Limit> = table.limits.into_inner().0.into_iter().map(|limit| limit.0).collect();
        let at = |policy_error: &tidegate::PolicyError| match policy_error {
            tidegate::PolicyError::Name => span.clone(),
            _ => limits_span.clone(),
        };
        let mut policy = Policy::new(name, limits).map_err(|e| error(at(&e), e.to_string()))?;
        if let Some(algorithm) = table.algorithm {
            policy = policy.with_algorithm(algorithm.0);
        }
        if let Some(mode) = table.mode {
            policy = policy.with_mode(mode.0);
        }
        if let Some(choice) = table.on_store_failure {
            policy = policy.with_on_store_failure(choice.0);
        }
        let bounds = reservation_bounds(table.max_hold, table.max_lease, table.max_reservations);
        policy = policy.with_reservation_bounds(bounds.map_err(|(span, message)| error(span, message))?);
        if let Some(term) = table.lease {
            policy = policy.with_lease(term.get_ref().0).map_err(|e| error(term.span(), e.to_string()))?;
        }
        if let Some(longest) = table.deny_cache {
            policy = policy.with_deny_cache(longest.0);
        }
        let key = match table.key {
            None => KeySource::ClientIp,
            Some(text) => {
                let wrong = |wrong: KeySourceError| error(text.span(), wrong.to_string());
                text.get_ref().0.parse().map_err(wrong)?
            }
        };
        let mut operations = BTreeMap::new();
        for (operation, value) in table.operations {
            let span = value.span();
            let OperationValue(table) = value.into_inner();
            let cost = table.cost.0;
            if let Some((limit, capacity)) = too_small(&policy, cost) {
                let message = format!(
                    "operation `{operation}` costs {}, but `{limit}` never allows more than {capacity} at once: lower the \
                     cost, or raise the limit",
                    cost.get()
                );
                return Err(error(span, message));
            }
            let choice = table.on_store_failure.map_or(policy.on_store_failure(), |choice| choice.0);
            operations.insert(operation, Operation { cost, policy: policy.clone().with_on_store_failure(choice) });
        }
        let hide_keys = table.hide_keys.is_some_and(|Switch(is_on)| is_on);
        let candidate_for = table.candidate_for.map(|name| name.into_inner().0);
        let labels = Labels::new(&policy);
        Ok(Self { policy, key, hide_keys, candidate_for, index, labels, operations })
    }

    /// Returns the operation with this name.
    pub fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.get(name)
    }

    /// Returns all operations with their names.
    pub fn operations(&self) -> impl Iterator<Item = (&str, &Operation)> {
        self.operations.iter().map(|(name, operation)| (name.as_str(), operation))
    }
}

/// Returns the bounds on holds and leases, or an error and its place.
fn reservation_bounds(
    max_hold: Option<Spanned<Time>>,
    max_lease: Option<Spanned<Time>>,
    max_reservations: Option<Spanned<Count>>,
) -> Result<ReservationBounds, (Range<usize>, String)> {
    let mut bounds = ReservationBounds::default();
    if let Some(max) = max_hold {
        bounds =
            bounds.with_max_hold(max.get_ref().0).map_err(|error| (max.span(), out_of_range("max_hold", &error)))?;
    }
    if let Some(max) = max_lease {
        bounds =
            bounds.with_max_lease(max.get_ref().0).map_err(|error| (max.span(), out_of_range("max_lease", &error)))?;
    }
    if let Some(max) = max_reservations {
        let number = u32::try_from(max.get_ref().0).unwrap_or(u32::MAX);
        bounds = bounds
            .with_max_reservations(number)
            .map_err(|error| (max.span(), out_of_range("max_reservations", &error)))?;
    }
    Ok(bounds)
}

/// Returns the error of a setting, instead of the one of a request.
fn out_of_range(setting: &str, error: &ReservationError) -> String {
    match error {
        ReservationError::Ttl { max } => format!("`{setting}` is out of range: use 1ms to {}", format_duration(*max)),
        other => format!("`{setting}`: {other}"),
    }
}

/// Checks `candidate_for`: a shadow policy names another policy. `names` are sorted.
fn check_candidate(
    name: &str,
    candidate_for: &Spanned<Plain>,
    table: &PolicyTable,
    names: &[String],
    origin: &Origin<'_>,
) -> Result<(), ConfigError> {
    let other = &candidate_for.get_ref().0;
    let message = if table.mode.is_none_or(|mode| mode.0 != Mode::Shadow) {
        "`candidate_for` needs `mode = \"shadow\"`: add it, or remove `candidate_for`".to_owned()
    } else if other == name {
        "a policy can't be a candidate for itself: name the policy that it may replace".to_owned()
    } else if names.binary_search(other).is_err() {
        let known: Vec<&str> = names.iter().map(String::as_str).filter(|known| *known != name).collect();
        let hint = nearest(other, &known).map_or(String::new(), |near| format!(": did you mean `{near}`?"));
        format!("there is no policy `{other}`{hint}")
    } else {
        return Ok(());
    };
    Err(origin.error(Some(candidate_for.span()), format!("policy `{name}`: {message}")))
}

/// Returns the first limit that never allows this cost, and the most that it allows.
fn too_small(policy: &Policy, cost: Cost) -> Option<(Limit, u64)> {
    let limits = policy.limits().iter().map(|limit| (*limit, policy.capacity(*limit)));
    limits.into_iter().find(|(_, capacity)| cost.get() > *capacity)
}

impl EntryMatch {
    /// Reads `key`, `key=value` or `key=value*`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.split_once('=') {
            _ if text.is_empty() || text.starts_with('=') => None,
            None => Some(Self::Any(text.to_owned())),
            Some((key, value)) => Some(match value.strip_suffix('*') {
                Some(start) => Self::Prefix(key.to_owned(), start.to_owned()),
                None => Self::Exact(key.to_owned(), value.to_owned()),
            }),
        }
    }
}

impl std::fmt::Display for EntryMatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(key, value) => write!(f, "{key}={value}"),
            Self::Prefix(key, start) => write!(f, "{key}={start}*"),
            Self::Any(key) => f.write_str(key),
        }
    }
}

fn envoy_rules(
    table: EnvoyTable,
    policies: &HashMap<Box<str>, ConfiguredPolicy>,
    origin: &Origin<'_>,
) -> Result<Vec<EnvoyRule>, ConfigError> {
    if table.domain.get_ref().0.is_empty() {
        return Err(origin.error(Some(table.domain.span()), "`domain` is empty: write the domain that Envoy sends"));
    }
    let is_on = |switch: Option<Switch>| switch.is_some_and(|Switch(is_on)| is_on);
    let action = match (&table.policy, is_on(table.unlimited), is_on(table.deny)) {
        (Some(policy), false, false) => {
            let Plain(name) = policy.get_ref();
            if !policies.contains_key(name.as_str()) {
                let known: Vec<&str> = policies.keys().map(AsRef::as_ref).collect();
                let hint = match nearest(name, &known) {
                    Some(near) => format!(": did you mean `{near}`?"),
                    None => format!(": write `[policies.{name}]`, or use the name of another policy"),
                };
                return Err(origin.error(Some(policy.span()), format!("there is no policy `{name}`{hint}")));
            }
            DescriptorAction::Policy(name.as_str().into())
        }
        (None, true, false) => DescriptorAction::Unlimited,
        (None, false, true) => DescriptorAction::Denied,
        _ => {
            let message = "an [[envoy]] needs one of `policy = \"…\"`, `unlimited = true` and `deny = true`";
            return Err(origin.error(Some(table.domain.span()), message));
        }
    };
    let span = table.descriptors.span();
    let entries = |texts: List<Plain>| {
        let texts: Vec<String> = texts.0.into_iter().map(|Plain(text)| text).collect();
        let read: Option<Vec<EntryMatch>> = texts.iter().map(|text| EntryMatch::parse(text)).collect();
        read.filter(|entries| !entries.is_empty()).ok_or_else(|| {
            let message =
                format!("`{texts:?}` is not a descriptor: write entries as \"key\", \"key=value\" or \"key=value*\"");
            origin.error(Some(span.clone()), message)
        })
    };
    let rule = |texts| {
        Ok(EnvoyRule { domain: table.domain.get_ref().0.clone(), entries: entries(texts)?, action: action.clone() })
    };
    table.descriptors.into_inner().0.into_iter().map(rule).collect()
}
