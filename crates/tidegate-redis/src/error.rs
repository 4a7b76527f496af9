//! [`Error`]: why Redis did not answer, by name.

use redis::RedisError;

use crate::cause::Cause;

/// Why a request got no answer from Redis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No answer came in time. Whether it was charged is not known, unless it reached Redis after its deadline: then it
    /// was not.
    #[error("redis did not answer in time")]
    Timeout,
    /// There is no connection, or the breaker is open.
    #[error("redis is not reachable")]
    Unreachable,
    /// The breaker is open because most answers came too late; Redis was not asked.
    #[error("redis answers too slowly to be asked")]
    TooSlow,
    /// The connection was lost while the request was under way; whether it was charged is not known.
    #[error("the connection to redis was lost before an answer came")]
    Lost,
    /// The request was shed, because Redis answers but does not keep up. Either the queue was full. Or 256 or more
    /// requests were outstanding, and this one waited for half of its timeout, or got no answer in time from a server
    /// that has answered other requests within three timeouts. If the request was sent, it is not known whether it was
    /// charged. Overload is not an outage: [`OnStoreFailure::Open`](tidegate::OnStoreFailure::Open) denies such a
    /// request.
    #[error("too many requests wait for redis")]
    Overloaded,
    /// The request reached Redis after its deadline; it did nothing.
    #[error("the request reached redis too late and did nothing")]
    Late,
    /// The server is a replica: a failover is under way, or the address is not that of a master.
    #[error("redis is read-only: it is a replica")]
    ReadOnly,
    /// The server is still reading its data set.
    #[error("redis is loading its data set")]
    Loading,
    /// The server has no memory left to write.
    #[error("redis is out of memory: raise maxmemory")]
    OutOfMemory,
    /// The cluster does not serve this slot now.
    #[error("the redis cluster is down for this key")]
    ClusterDown,
    /// The slot moves between nodes, and not all keys of the decision are on one of them.
    #[error("the slot of this key is being moved")]
    Moving,
    /// Something that is not Tidegate's is under the key's name.
    #[error("the key holds something that tidegate did not write: {0}")]
    WrongType(String),
    /// A later release has written the state.
    #[error("the state was written by a later release: {0}")]
    NewerVersion(String),
    /// The user may not run a command that the script needs.
    #[error("the redis user lacks the permission for a command or a key: {0}")]
    NoPermission(String),
    /// The server has fewer replicas than it requires for writes (`min-replicas-to-write`).
    #[error("redis has too few replicas to write")]
    NoReplicas,
    /// The server refuses writes because it could not save its data set (MISCONF).
    #[error("redis refuses writes because it could not save its data set")]
    SaveFailed,
    /// The user or the password is wrong.
    #[error("redis refused the login: {0}")]
    LoginRefused(String),
    /// The server has no room for a new key, by [`max_keys`](crate::RedisStoreBuilder::max_keys) or its memory.
    #[error("redis has no room for a new key")]
    NoRoom,
    /// Any other error that Redis returns.
    #[error("redis refused: {0}")]
    Refused(String),
    /// An answer that can't be read.
    #[error("redis answered something that can't be read")]
    Garbled,
}

impl From<Error> for tidegate::StoreError {
    fn from(error: Error) -> Self {
        Self::Unavailable { cause: error.name(), message: error.to_string() }
    }
}

impl Error {
    /// The error that an error's text stands for.
    pub(crate) fn from_message(text: &str) -> Self {
        // An error raised in a script may come with the place it was raised at before it.
        let has = |word: &str| text.contains(word);
        if has("READONLY") {
            Self::ReadOnly
        } else if has("OOM ") {
            Self::OutOfMemory
        } else if has("NEWERVERSION") {
            Self::NewerVersion(after(text, "NEWERVERSION"))
        } else if has("WRONGTYPE") {
            Self::WrongType(after(text, "WRONGTYPE"))
        } else if has("NOPERM") || has("ACL failure") || has("The user executing the script") {
            Self::NoPermission(text.to_owned())
        } else if has("NOREPLICAS") {
            Self::NoReplicas
        } else if has("MISCONF") {
            Self::SaveFailed
        } else if has("NOAUTH") || has("WRONGPASS") {
            Self::LoginRefused(text.to_owned())
        } else if has("LOADING") {
            Self::Loading
        } else if has("CLUSTERDOWN") || has("MASTERDOWN") {
            Self::ClusterDown
        } else if has("TRYAGAIN") {
            Self::Moving
        } else {
            Self::Refused(text.to_owned())
        }
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

    /// What caused it, for counters, logs and degraded states.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Self::Timeout => Cause::Timeout,
            Self::Unreachable => Cause::Unreachable,
            Self::TooSlow => Cause::TooSlow,
            Self::Lost => Cause::Lost,
            Self::Overloaded => Cause::Overloaded,
            Self::Late => Cause::Late,
            Self::ReadOnly => Cause::ReadOnly,
            Self::Loading => Cause::Loading,
            Self::OutOfMemory => Cause::OutOfMemory,
            Self::ClusterDown => Cause::ClusterDown,
            Self::Moving => Cause::Moving,
            Self::WrongType(_) => Cause::WrongType,
            Self::NewerVersion(_) => Cause::NewerVersion,
            Self::NoPermission(_) => Cause::NoPermission,
            Self::NoReplicas => Cause::NoReplicas,
            Self::SaveFailed => Cause::SaveFailed,
            Self::LoginRefused(_) => Cause::LoginRefused,
            Self::NoRoom => Cause::NoRoom,
            Self::Refused(_) => Cause::Refused,
            Self::Garbled => Cause::Garbled,
        }
    }

    /// A short name of the cause, for counters and logs.
    pub fn name(&self) -> &'static str {
        self.cause().name()
    }
}

fn after(text: &str, word: &str) -> String {
    text.split_once(word).map_or(text, |(_, rest)| rest).trim().to_owned()
}
