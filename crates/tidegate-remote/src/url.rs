//! [`RootUrl`]: the address of the root in a URL: `tidegate://[:token@]host[:port]`, or `tidegates://…` over TLS.

use std::fmt;

use percent_encoding::percent_decode_str;

/// The port of RESP of a service.
const DEFAULT_PORT: u16 = 6380;

/// The service that a URL names.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RootUrl {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) token: Option<String>,
    pub(crate) tls: bool,
}

/// Why a URL was refused. The text quotes no part of the URL that may be a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The URL has no scheme.
    #[error("the URL does not begin with a scheme and `://`: use tidegate://host:6380, or tidegates://host:6380 (TLS)")]
    NoScheme,
    /// The scheme is unknown.
    #[error("`{scheme}` is not a known scheme: use tidegate://host:6380, or tidegates://host:6380 (TLS)")]
    Scheme {
        /// The text before `://`.
        scheme: String,
    },
    /// The address can't be read.
    #[error(
        "the address in the URL is not one host or host:port, such as root.example:6380; a token ends with `@` before the host"
    )]
    Address,
    /// The URL has a user.
    #[error(
        "the URL has a user, but a service has only tokens: write tidegate://:TOKEN@host, with a colon before the token"
    )]
    User,
    /// The token is empty, or its percent-encoding is invalid.
    #[error("the token can't be read: write `@` as %40, `:` as %3A, `/` as %2F, `%` as %25")]
    Token,
}

impl RootUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| is_plain(scheme)).ok_or(UrlError::NoScheme)?;
        let tls = match scheme {
            "tidegate" => false,
            "tidegates" => true,
            _ => return Err(UrlError::Scheme { scheme: scheme.to_owned() }),
        };
        let (login, address) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
        let token = match login.map(|login| login.split_once(':')) {
            None => None,
            Some(Some(("", token))) => Some(decode(token)?),
            Some(_) => return Err(UrlError::User),
        };
        let address = address.strip_suffix('/').unwrap_or(address);
        let wrong = || UrlError::Address;
        // An IPv6 address is in brackets.
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                let is_port = port.is_empty() || port.starts_with(':');
                (host, is_port.then(|| port.strip_prefix(':')).ok_or_else(wrong)?)
            }
            None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(DEFAULT_PORT), str::parse).map_err(|_| wrong())?;
        let is_part_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
        if host.is_empty() || port == 0 || !host.bytes().all(is_part_of_host) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port, token, tls })
    }
}

/// Whether a scheme can be quoted.
fn is_plain(scheme: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-".contains(&byte);
    (1..=40).contains(&scheme.len()) && scheme.bytes().all(is_plain)
}

fn decode(text: &str) -> Result<String, UrlError> {
    let is_code = |rest: &str| rest.as_bytes().get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit));
    if text.is_empty() || !text.split('%').skip(1).all(is_code) {
        return Err(UrlError::Token);
    }
    percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned).map_err(|_| UrlError::Token)
}

/// The address without the token.
impl fmt::Display for RootUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl fmt::Debug for RootUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootUrl({self}, tls: {}, token: {})", self.tls, self.token.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::{RootUrl, UrlError};
    use crate::RemoteStore;

    #[test]
    fn every_form_of_url_is_parsed() {
        for (url, address, token, tls) in [
            ("tidegate://root", "root:6380", None, false),
            ("tidegates://root.example:7000/", "root.example:7000", None, true),
            ("tidegate://:s%40cret%3A1@[::1]:7", "[::1]:7", Some("s@cret:1"), false),
        ] {
            let root = RootUrl::parse(url).expect(url);
            assert_eq!((root.to_string().as_str(), root.token.as_deref(), root.tls), (address, token, tls), "{url}");
            assert!(!format!("{root:?}").contains("cret"), "a token must not appear in logs");
        }
    }

    #[test]
    fn an_invalid_url_is_an_error_that_names_the_problem() {
        for (url, error) in [
            ("redis://a", UrlError::Scheme { scheme: "redis".to_owned() }),
            ("root:6380", UrlError::NoScheme),
            ("tidegate://", UrlError::Address),
            ("tidegate://a:port", UrlError::Address),
            ("tidegate://a:0", UrlError::Address),
            ("tidegate://a:1,b:2", UrlError::Address),
            ("tidegate://a/0", UrlError::Address),
            ("tidegate://[::1", UrlError::Address),
            ("tidegate://token@a", UrlError::User),
            ("tidegate://user:token@a", UrlError::User),
            ("tidegate://:@a", UrlError::Token),
            ("tidegate://:%zz@a", UrlError::Token),
        ] {
            assert_eq!(RootUrl::parse(url), Err(error), "{url}");
        }
    }

    #[test]
    fn an_error_quotes_no_token() {
        for url in [
            "tidegate://:s3cret-token",
            "tidegates://:s3cret-token:root:6380",
            "tidegate:/:s3cret-token@root.example",
            "tidegate:s3cret-token@root.example",
            ":s3cret-token@tidegate://root.example",
            "tidegate://s3cret-token@root.example",
            "tidegate://:s3cret-token%@root.example",
            "tidegate://:s3cret-token@root.example:s3cret-token",
            "s3cret-token",
        ] {
            let error = RootUrl::parse(url).expect_err(url);
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{url}: {error}");
            let builder = RemoteStore::builder(url);
            assert!(!format!("{builder:?}").contains("s3cret"), "{builder:?}");
        }
        let valid = RemoteStore::builder("tidegate://:s3cret-token@root.example");
        let text = format!("{valid:?}");
        assert!(text.contains("root.example:6380") && !text.contains("s3cret"), "{text}");
    }
}
