//! [`Observer`]: receives the events of a service. The dashboard is one. The service works without any.

use std::{fmt, sync::Arc};

use tidegate::{Decision, Key};

use super::Actor;
use crate::metrics::{DecisionClass, DurationCounts, OutcomeCounts};

/// Receives the events of a service. All methods do nothing by default.
pub(crate) trait Observer: fmt::Debug + Send + Sync {
    /// Returns the observer of the decisions of one policy. The same name always returns the same observer.
    fn policy(&self, _name: &Arc<str>) -> Arc<dyn PolicyObserver> {
        Arc::new(())
    }

    /// Returns the keys of a policy that are remembered: a bounded number.
    fn known_keys(&self, _policy: &str) -> Vec<Key<'static>> {
        Vec::new()
    }

    /// A policy is no longer configured.
    fn policy_removed(&self, _name: &str) {}

    /// Something happened to the service.
    fn event(&self, _event: Event, _at_ms: u64, _text: String) {}

    /// A person changed a key.
    fn key_changed(&self, _event: Event, _at_ms: u64, _actor: Actor, _change: KeyChange<'_>) {}

    /// A second has ended. `counts` are the decisions of each policy since the service started.
    fn second_ended(&self, _second: u64, _counts: Vec<(Arc<str>, OutcomeCounts)>, _durations: &DurationCounts) {}
}

/// Receives those decisions of one policy that are not [`DecisionClass::Ordinary`].
pub(crate) trait PolicyObserver: fmt::Debug + Send + Sync {
    fn decided(&self, _class: DecisionClass, _key: &Key<'_>, _decision: &Decision) {}
}

impl Observer for () {}
impl PolicyObserver for () {}

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Started,
    Reload,
    ReloadRefused,
    StoreLost,
    StoreBack,
    NoRoom,
    /// Another degraded state has begun.
    Degraded,
    /// A degraded state has ended.
    Recovered,
    /// A person reset a key.
    Reset,
    /// A person gave a key other limits.
    Override,
    /// A person banned a key.
    Ban,
    /// A person exempted a key.
    Exemption,
    /// A person removed other limits, a ban or an exemption.
    OverrideRemoved,
}

impl Event {
    /// The name of the event in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Reload => "reload",
            Self::ReloadRefused => "reload_refused",
            Self::StoreLost => "store_lost",
            Self::StoreBack => "store_back",
            Self::NoRoom => "no_room",
            Self::Degraded => "degraded",
            Self::Recovered => "recovered",
            Self::Reset => "reset",
            Self::Override => "override",
            Self::Ban => "ban",
            Self::Exemption => "exemption",
            Self::OverrideRemoved => "lift",
        }
    }
}

/// A change that a person made to a key, as the words before the key and after the policy.
#[derive(Debug, Clone)]
pub(crate) struct KeyChange<'a> {
    pub(crate) before: &'static str,
    pub(crate) key: Key<'a>,
    pub(crate) policy: Arc<str>,
    pub(crate) after: String,
    /// The reason that the person gave. It may name somebody.
    pub(crate) note: String,
}
