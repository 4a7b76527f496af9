//! [`Error`]: why Redis did not answer; [`Cause`]: why a store is degraded, with the name and the cure of each cause.

use redis::RedisError;

/// Declares the errors: the name of each in metrics, logs and status pages, its message, and what an operator can do about
/// it. Each error is also a cause of degraded states.
macro_rules! errors {
    ($($(#[$doc:meta])* $error:ident $(($detail:ty))? $name:literal $message:literal $cure:expr;)+) => {
        /// Why a request got no answer from Redis.
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* #[error($message)] $error $(($detail))?,)+
        }

        /// Why requests are answered without Redis, or with less certainty than requested.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Cause {
            $($error,)+
            MayEvict,
        }

        impl Error {
            /// What caused it, for counters, logs and degraded states.
            pub(crate) fn cause(&self) -> Cause {
                match self {
                    $(Self::$error { .. } => Cause::$error,)+
                }
            }
        }

        impl Cause {
            /// Every cause, in the order of their indices.
            pub(crate) const ALL: [Self; Self::MayEvict as usize + 1] = [$(Self::$error,)+ Self::MayEvict];

            fn name_and_cure(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$error => ($name, $cure),)+
                    Self::MayEvict => ("may_evict", "set maxmemory-policy noeviction"),
                }
            }
        }
    };
}

const SLOW: &str =
    "raise store.timeout above the round trip to redis, move closer to redis, or find out why it is busy (SLOWLOG)";
const UNREACHABLE: &str = "start redis, or check its address and the network";

errors! {
    /// No answer came in time. Whether it was charged is not known, unless it reached Redis after its deadline: then it
    /// was not.
    Timeout "timeout" "redis did not answer in time" SLOW;
    /// The breaker is open because most answers came too late; Redis was not asked.
    TooSlow "too_slow" "redis answers too slowly to be asked" SLOW;
    /// There is no connection, or the breaker is open.
    Unreachable "unreachable" "redis is not reachable" UNREACHABLE;
    /// The connection was lost while the request was under way; whether it was charged is not known.
    Lost "lost" "the connection to redis was lost before an answer came" UNREACHABLE;
    /// The request was shed, because Redis answers but does not keep up. Either the queue was full. Or 256 or more
    /// requests were outstanding, and this one waited for half of its timeout, or got no answer in time from a server
    /// that has answered other requests within three timeouts. If the request was sent, it is not known whether it was
    /// charged. Overload is not an outage: [`OnStoreFailure::Open`](tidegate::OnStoreFailure::Open) denies such a
    /// request.
    Overloaded "overloaded" "too many requests wait for redis"
        "find the client that sends too many requests; give this service and redis more processor time";
    /// The request reached Redis after its deadline; it did nothing.
    Late "late" "the request reached redis too late and did nothing" SLOW;
    /// The server is a replica: a failover is under way, or the address is not that of a master.
    ReadOnly "read_only" "redis is read-only: it is a replica" "wait for the failover to end, or connect to the master";
    /// The server is still reading its data set.
    Loading "loading" "redis is loading its data set" "wait until redis has loaded its data set";
    /// The server has no memory left to write.
    OutOfMemory "out_of_memory" "redis is out of memory: raise maxmemory"
        "raise maxmemory of redis, or set store.max_keys to a number of keys that fits";
    /// The cluster does not serve this slot now.
    ClusterDown "cluster_down" "the redis cluster is down for this key"
        "start the nodes of the cluster that serve the missing slots (CLUSTER INFO)";
    /// The slot moves between nodes, and not all keys of the decision are on one of them.
    Moving "moving" "the slot of this key is being moved"
        "wait until the slot has been moved, or finish the move (redis-cli --cluster fix)";
    /// Something that is not Tidegate's is under the key's name.
    WrongType(String) "wrong_type" "the key holds something that tidegate did not write: {0}"
        "delete the key that another program wrote, or set another store.prefix";
    /// A later release has written the state.
    NewerVersion(String) "newer_version" "the state was written by a later release: {0}"
        "upgrade this service to the release that wrote the state";
    /// The user may not run a command that the script needs.
    NoPermission(String) "no_permission" "the redis user lacks the permission for a command or a key: {0}"
        "grant the redis user the documented commands and keys (ACL SETUSER)";
    /// The server has fewer replicas than it requires for writes (`min-replicas-to-write`).
    NoReplicas "no_replicas" "redis has too few replicas to write"
        "start the missing replicas, or lower min-replicas-to-write";
    /// The server refuses writes because it could not save its data set (MISCONF).
    SaveFailed "save_failed" "redis refuses writes because it could not save its data set"
        "free disk space on the machine of redis, or find in its log why BGSAVE fails";
    /// The user or the password is wrong.
    LoginRefused(String) "login_refused" "redis refused the login: {0}"
        "correct the user and the password in store.url";
    /// The server has no room for a new key, by [`max_keys`](crate::RedisStoreBuilder::max_keys) or its memory.
    NoRoom "no_room" "redis has no room for a new key"
        "raise store.max_keys and maxmemory of redis, or find the client that creates too many keys";
    /// Any other error that Redis returns.
    Refused(String) "refused" "redis refused: {0}" "see the detail, and the log of redis";
    /// An answer that can't be read.
    Garbled "garbled" "redis answered something that can't be read"
        "make sure that store.url is a redis or valkey server of a supported version";
}

impl From<Error> for tidegate::StoreError {
    fn from(error: Error) -> Self {
        Self::Unavailable { cause: error.name(), message: error.to_string() }
    }
}

/// Makes the error that a message stands for.
type ErrorFn = fn(&str) -> Error;

/// The words of Redis's error messages, and the error that each stands for. The first that a message contains counts. A
/// message from a script may begin with the place at which the error was raised.
const ERRORS_BY_WORD: [(&str, ErrorFn); 15] = [
    ("READONLY", |_| Error::ReadOnly),
    ("OOM ", |_| Error::OutOfMemory),
    ("NEWERVERSION", |text| Error::NewerVersion(after(text, "NEWERVERSION"))),
    ("WRONGTYPE", |text| Error::WrongType(after(text, "WRONGTYPE"))),
    ("NOPERM", |text| Error::NoPermission(text.to_owned())),
    ("ACL failure", |text| Error::NoPermission(text.to_owned())),
    ("The user executing the script", |text| Error::NoPermission(text.to_owned())),
    ("NOREPLICAS", |_| Error::NoReplicas),
    ("MISCONF", |_| Error::SaveFailed),
    ("NOAUTH", |text| Error::LoginRefused(text.to_owned())),
    ("WRONGPASS", |text| Error::LoginRefused(text.to_owned())),
    ("LOADING", |_| Error::Loading),
    ("CLUSTERDOWN", |_| Error::ClusterDown),
    ("MASTERDOWN", |_| Error::ClusterDown),
    ("TRYAGAIN", |_| Error::Moving),
];

impl Error {
    /// The error that an error's text stands for.
    pub(crate) fn from_message(text: &str) -> Self {
        let known = ERRORS_BY_WORD.iter().find(|(word, _)| text.contains(word));
        known.map_or_else(|| Self::Refused(text.to_owned()), |(_, error)| error(text))
    }

    pub(crate) fn from_error(error: &RedisError) -> Self {
        if error.kind() == redis::ErrorKind::AuthenticationFailed {
            return Self::LoginRefused(error.to_string());
        }
        if error.is_io_error() || error.is_connection_dropped() || error.is_unrecoverable_error() {
            return Self::Lost;
        }
        match (error.code(), error.detail()) {
            (Some(code), detail) => Self::from_message(&format!("{code} {}", detail.unwrap_or_default())),
            (None, _) => Self::from_message(&error.to_string()),
        }
    }

    /// Whether no server answers for the key at all. Any other error is one of a server that answers, but refuses, or answers
    /// too late.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable | Self::Lost | Self::Loading | Self::ClusterDown | Self::LoginRefused(_))
    }

    /// A short name of the cause, for counters and logs.
    pub fn name(&self) -> &'static str {
        self.cause().name()
    }
}

impl Cause {
    pub(crate) fn name(self) -> &'static str {
        self.name_and_cure().0
    }

    /// What an operator can do about it.
    pub(crate) fn cure(self) -> &'static str {
        self.name_and_cure().1
    }

    /// Whether a server gives no answer, or none in time.
    pub(crate) fn is_silence(self) -> bool {
        use Cause::{ClusterDown, Loading, Lost, Timeout, TooSlow, Unreachable};
        matches!(self, Timeout | TooSlow | Unreachable | Lost | Loading | ClusterDown)
    }
}

fn after(text: &str, word: &str) -> String {
    text.split_once(word).map_or(text, |(_, rest)| rest).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::Cause;

    #[test]
    fn every_cause_has_its_own_index_name_and_cure() {
        let mut names = std::collections::BTreeSet::new();
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, index);
            assert!(names.insert(cause.name()) && !cause.cure().is_empty());
        }
    }
}
