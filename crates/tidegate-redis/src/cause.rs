//! [`Cause`]: why a store is degraded, with the name and the cure of each cause.

/// Why requests are answered without Redis, or with less certainty than was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Timeout,
    TooSlow,
    Unreachable,
    Lost,
    Overloaded,
    Late,
    ReadOnly,
    Loading,
    OutOfMemory,
    ClusterDown,
    Moving,
    WrongType,
    NewerVersion,
    NoPermission,
    NoReplicas,
    SaveFailed,
    LoginRefused,
    NoRoom,
    Refused,
    Garbled,
    MayEvict,
}

impl Cause {
    /// Every cause, in the order of their numbers.
    pub(crate) const ALL: [Self; 21] = [
        Self::Timeout,
        Self::TooSlow,
        Self::Unreachable,
        Self::Lost,
        Self::Overloaded,
        Self::Late,
        Self::ReadOnly,
        Self::Loading,
        Self::OutOfMemory,
        Self::ClusterDown,
        Self::Moving,
        Self::WrongType,
        Self::NewerVersion,
        Self::NoPermission,
        Self::NoReplicas,
        Self::SaveFailed,
        Self::LoginRefused,
        Self::NoRoom,
        Self::Refused,
        Self::Garbled,
        Self::MayEvict,
    ];

    /// The index of this cause in [`ALL`](Self::ALL).
    #[inline]
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The name in metrics, logs and status pages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::TooSlow => "too_slow",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Overloaded => "overloaded",
            Self::Late => "late",
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::OutOfMemory => "out_of_memory",
            Self::ClusterDown => "cluster_down",
            Self::Moving => "moving",
            Self::WrongType => "wrong_type",
            Self::NewerVersion => "newer_version",
            Self::NoPermission => "no_permission",
            Self::NoReplicas => "no_replicas",
            Self::SaveFailed => "save_failed",
            Self::LoginRefused => "login_refused",
            Self::NoRoom => "no_room",
            Self::Refused => "refused",
            Self::Garbled => "garbled",
            Self::MayEvict => "may_evict",
        }
    }

    /// What an operator can do about it.
    pub(crate) fn cure(self) -> &'static str {
        match self {
            Self::Timeout | Self::TooSlow | Self::Late => {
                "raise store.timeout above the round trip to redis, move closer to it, or find out why it is busy (SLOWLOG)"
            }
            Self::Unreachable | Self::Lost => "start redis, or check its address and the network",
            Self::Overloaded => {
                "find the client that sends so many requests; give this service and redis more processor time"
            }
            Self::ReadOnly => "wait for the failover to end, or connect to the master",
            Self::Loading => "wait until redis has read its data set",
            Self::OutOfMemory => "raise maxmemory of redis, or set store.max_keys lower",
            Self::ClusterDown => "start the nodes of the cluster that serve the missing slots (CLUSTER INFO)",
            Self::Moving => "wait until the slot has been moved, or finish the move (redis-cli --cluster fix)",
            Self::WrongType => "delete the key that another program wrote, or set another store.prefix",
            Self::NewerVersion => "upgrade this service to the release that wrote the state",
            Self::NoPermission => "grant the redis user the documented commands and keys (ACL SETUSER)",
            Self::NoReplicas => "start the missing replicas, or lower min-replicas-to-write",
            Self::SaveFailed => "free disk space on the machine of redis, or find in its log why BGSAVE fails",
            Self::LoginRefused => "correct the user and the password in store.url",
            Self::NoRoom => "raise store.max_keys and maxmemory of redis, or find the client that creates so many keys",
            Self::Refused => "see the detail, and the log of redis",
            Self::Garbled => "make sure that store.url is a redis or valkey server of a supported version",
            Self::MayEvict => "set maxmemory-policy noeviction",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cause;

    #[test]
    fn every_cause_has_its_place_and_a_name_of_its_own() {
        let mut names = std::collections::BTreeSet::new();
        for (place, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause.index(), place);
            assert!(names.insert(cause.name()) && !cause.cure().is_empty());
        }
    }
}
