//! [`Error`]: why the root gave no answer; [`ConnectError`]: why a store could not be made.

use redis::RedisError;
use tidegate::{ReservationError, ReservationId, StoreError};

use crate::url::UrlError;

/// The longest text of the root in an error, in characters.
const MAX_TEXT: usize = 300;

/// Why a store could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is wrong.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The certificates can't be used.
    #[error("the certificates can't be used: {0}")]
    Certificates(String),
}

/// Why a request got no answer from the root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// Whether it was carried out is not known.
    #[error("the root did not answer in time")]
    Timeout,
    /// Too many requests are under way. It was not sent.
    #[error("too many requests wait for the root")]
    Overloaded,
    /// There is no connection. It was not sent.
    #[error("the root is not reachable: {0}")]
    Unreachable(String),
    /// Whether it was carried out is not known.
    #[error("the connection to the root was lost before an answer came")]
    Lost,
    #[error("the root refused the token: {0}")]
    LoginRefused(String),
    #[error("the token may not do this at the root: {0}")]
    NoPermission(String),
    #[error("the server is not a Tidegate: {0}")]
    NotTidegate(String),
    #[error("the root refused: {0}")]
    UnknownPolicy(String),
    #[error("the root refused: {0}")]
    Refused(String),
    #[error(
        "the reply of the root can't be read: it has no valid `{0}`; the root must have the release of this service, or a later one"
    )]
    Garbled(&'static str),
}

impl Error {
    /// A short name of the cause, for counters and logs.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Overloaded => "overloaded",
            Self::Unreachable(_) => "unreachable",
            Self::Lost => "lost",
            Self::LoginRefused(_) => "login_refused",
            Self::NoPermission(_) => "no_permission",
            Self::NotTidegate(_) => "not_tidegate",
            Self::UnknownPolicy(_) => "unknown_policy",
            Self::Refused(_) => "refused",
            Self::Garbled(_) => "garbled",
        }
    }

    /// What an operator can do about it.
    pub(crate) fn cure(&self) -> &'static str {
        match self {
            Self::Timeout => "raise store.timeout above the round trip to the root, or find out why the root is busy",
            Self::Overloaded => "lease the policies that are requested most (`lease` of a policy), or add a region",
            Self::Unreachable(_) | Self::Lost => "start the root, or check its address and the network",
            Self::LoginRefused(_) => "correct the token in store.url: tidegate://:TOKEN@host",
            Self::NoPermission(_) => "use the admin token of the root in store.url",
            Self::NotTidegate(_) => "set store.url to the RESP address of a Tidegate service",
            Self::UnknownPolicy(_) => "add a policy with the same name to the root, or correct the name",
            Self::Refused(_) => "see the detail, and the configuration of the root",
            Self::Garbled(_) => "update the root first, then the regions",
        }
    }

    /// Whether the root can't decide the request, however often it is asked. Then no failure choice may admit it.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::UnknownPolicy(_) | Self::Refused(_) | Self::NoPermission(_))
    }

    /// The error of a request over a connection.
    pub(crate) fn of_request(error: &RedisError) -> Self {
        match (error.code(), error.detail()) {
            (Some(code), detail) => Self::of_message(code, detail.unwrap_or_default()),
            (None, _) => Self::Lost,
        }
    }

    /// The error of an attempt to connect. It is never final: it says nothing about a request.
    pub(crate) fn of_connecting(error: &RedisError) -> Self {
        match (error.code(), error.kind()) {
            (Some(code), _) => match Self::of_message(code, error.detail().unwrap_or_default()) {
                Self::NoPermission(text) => Self::LoginRefused(text),
                Self::Refused(text) | Self::UnknownPolicy(text) => {
                    Self::Unreachable(format!("it answered the connection with the error `{code} {text}`"))
                }
                error => error,
            },
            (None, redis::ErrorKind::AuthenticationFailed) => {
                Self::LoginRefused(short(error.detail().unwrap_or("AUTH")))
            }
            (None, redis::ErrorKind::Parse) => Self::NotTidegate("it does not speak RESP".to_owned()),
            (None, _) => Self::Unreachable(short(&error.to_string())),
        }
    }

    fn of_message(code: &str, detail: &str) -> Self {
        let text = short(detail);
        match code {
            "NOAUTH" | "WRONGPASS" => Self::LoginRefused(text),
            "NOPERM" => Self::NoPermission(text),
            _ if detail.starts_with("unknown command") => Self::NotTidegate(text),
            _ if detail.starts_with("AUTH ") => Self::LoginRefused(text),
            _ if detail.starts_with("there is no policy ") => Self::UnknownPolicy(text),
            _ => Self::Refused(text),
        }
    }

    /// The error of an operation on the reservation `id`. The root names what is wrong with a request only as text.
    pub(crate) fn of_reservation(self, id: &ReservationId) -> StoreError {
        let Self::Refused(text) = &self else { return self.into() };
        let known = [
            ReservationError::Id,
            ReservationError::Foreign,
            ReservationError::OtherKey,
            ReservationError::PolicyGone { name: id.policy_name().unwrap_or_default().to_owned() },
        ];
        let same = known.into_iter().find(|error| error.to_string() == *text);
        same.or_else(|| spent_too_much(text)).map_or_else(|| self.into(), StoreError::Reservation)
    }
}

/// The numbers of [`ReservationError::SpentTooMuch`] in its text.
fn spent_too_much(text: &str) -> Option<ReservationError> {
    let mut numbers = text.split(|char: char| !char.is_ascii_digit()).filter(|word| !word.is_empty());
    let mut next = || numbers.next()?.parse().ok();
    let error = ReservationError::SpentTooMuch { spent: next()?, units: next()? };
    (error.to_string() == text).then_some(error)
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        Self::Unavailable { cause: error.name(), message: error.to_string() }
    }
}

fn short(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use tidegate::{Policy, ReservationError, ReservationId, StoreError};

    use super::Error;

    #[test]
    fn the_text_of_a_request_that_is_wrong_becomes_the_same_error() {
        let policy = Policy::new("api", ["9/1m".parse().expect("a limit")]).expect("a policy");
        let id = ReservationId::never_granted(&policy, [1; 16]);
        for error in [
            ReservationError::Foreign,
            ReservationError::SpentTooMuch { spent: 7, units: 5 },
            ReservationError::PolicyGone { name: "api".to_owned() },
        ] {
            let refused = Error::of_message("ERR", &error.to_string());
            assert_eq!(refused.of_reservation(&id), StoreError::Reservation(error));
        }
        let other = Error::of_message("ERR", "3 units can't be spent").of_reservation(&id);
        assert_eq!(other.cause(), "refused");
    }
}
