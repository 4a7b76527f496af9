//! [`Cause`]: why a store is degraded, with the name and the cure of each cause.

/// Declares the causes: the name of each in metrics, logs and status pages, and what an operator can do about it.
macro_rules! causes {
    ($($cause:ident $name:literal $cure:expr;)+) => {
        /// Why requests are answered without Redis, or with less certainty than requested.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Cause {
            $($cause),+
        }

        impl Cause {
            /// Every cause, in the order of their indices.
            pub(crate) const ALL: [Self; [$($name),+].len()] = [$(Self::$cause),+];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$cause => $name),+
                }
            }

            /// What an operator can do about it.
            pub(crate) fn cure(self) -> &'static str {
                match self {
                    $(Self::$cause => $cure),+
                }
            }
        }
    };
}

const SLOW: &str =
    "raise store.timeout above the round trip to redis, move closer to redis, or find out why it is busy (SLOWLOG)";
const UNREACHABLE: &str = "start redis, or check its address and the network";

causes! {
    Timeout "timeout" SLOW;
    TooSlow "too_slow" SLOW;
    Unreachable "unreachable" UNREACHABLE;
    Lost "lost" UNREACHABLE;
    Overloaded "overloaded" "find the client that sends too many requests; give this service and redis more processor time";
    Late "late" SLOW;
    ReadOnly "read_only" "wait for the failover to end, or connect to the master";
    Loading "loading" "wait until redis has loaded its data set";
    OutOfMemory "out_of_memory" "raise maxmemory of redis, or set store.max_keys to a number of keys that fits";
    ClusterDown "cluster_down" "start the nodes of the cluster that serve the missing slots (CLUSTER INFO)";
    Moving "moving" "wait until the slot has been moved, or finish the move (redis-cli --cluster fix)";
    WrongType "wrong_type" "delete the key that another program wrote, or set another store.prefix";
    NewerVersion "newer_version" "upgrade this service to the release that wrote the state";
    NoPermission "no_permission" "grant the redis user the documented commands and keys (ACL SETUSER)";
    NoReplicas "no_replicas" "start the missing replicas, or lower min-replicas-to-write";
    SaveFailed "save_failed" "free disk space on the machine of redis, or find in its log why BGSAVE fails";
    LoginRefused "login_refused" "correct the user and the password in store.url";
    NoRoom "no_room" "raise store.max_keys and maxmemory of redis, or find the client that creates too many keys";
    Refused "refused" "see the detail, and the log of redis";
    Garbled "garbled" "make sure that store.url is a redis or valkey server of a supported version";
    MayEvict "may_evict" "set maxmemory-policy noeviction";
}

impl Cause {
    /// The index of this cause in [`ALL`](Self::ALL).
    #[inline]
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Whether Redis does not answer at all.
    pub(crate) fn is_outage(self) -> bool {
        use Cause::{ClusterDown, Loading, Lost, Timeout, TooSlow, Unreachable};
        matches!(self, Timeout | TooSlow | Unreachable | Lost | Loading | ClusterDown)
    }
}

#[cfg(test)]
mod tests {
    use super::Cause;

    #[test]
    fn every_cause_has_its_own_index_name_and_cure() {
        let mut names = std::collections::BTreeSet::new();
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause.index(), index);
            assert!(names.insert(cause.name()) && !cause.cure().is_empty());
        }
    }
}
