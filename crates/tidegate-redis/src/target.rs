//! [`Target`]: the servers that a URL names.
//!
//! | URL | servers |
//! | --- | --- |
//! | `redis://[user[:password]@]host[:port][/db]` | one server |
//! | `rediss://…` | the same over TLS |
//! | `redis-cluster://[user[:password]@]a:6379,b:6379` | a cluster, found through any of these nodes |
//! | `redis-sentinel://[user[:password]@]a:26379,b:26379/mymaster[/db]` | the master that these sentinels name |
//! | `rediss-cluster://…`, `rediss-sentinel://…` | the same over TLS |
//!
//! Each scheme may begin with `valkey` in place of `redis`. `@`, `:` and `/` in the user or the password are percent-encoded.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates};

/// The servers of a store.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Server(ServerLocation),
    /// A cluster, found through any of these nodes.
    Cluster(Vec<Address>),
}

/// How to find a server.
#[derive(Debug, Clone)]
pub(crate) enum ServerLocation {
    Fixed(Address),
    /// The master that these sentinels name.
    Sentinel {
        sentinels: Vec<Address>,
        master: String,
        login: Login,
    },
}

/// One server's address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// How to log in to a server.
#[derive(Clone)]
pub(crate) struct Login {
    /// User, password and database.
    pub(crate) settings: RedisConnectionInfo,
    pub(crate) tls: bool,
    certificates: Option<TlsCertificates>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Passwords must not appear in logs.
        f.debug_struct("Login").field("user", &self.settings.username()).field("tls", &self.tls).finish_non_exhaustive()
    }
}

/// Why a URL was refused. The text quotes no part of the URL that may be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The URL has no scheme.
    #[error("the URL does not begin with a scheme and `://`, such as redis://, rediss:// (TLS) or redis-cluster://")]
    NoScheme,
    /// The scheme is unknown.
    #[error(
        "`{scheme}` is not a known scheme: use redis://, rediss:// (TLS), redis-cluster://a:6379,b:6379 or \
         redis-sentinel://a:26379,b:26379/mymaster"
    )]
    Scheme {
        /// The text before `://`.
        scheme: String,
    },
    /// The URL has no address.
    #[error("the URL names no server: write host or host:port after `//`, several separated by commas")]
    NoServer,
    /// An address can't be read.
    #[error(
        "an address in the URL is not host or host:port, such as 127.0.0.1:6379; a password ends with `@` before the host"
    )]
    Address,
    /// Several servers in a URL of one server.
    #[error("the URL names several servers, but it is for one: use redis-cluster://a:6379,b:6379 for a cluster")]
    SeveralServers,
    /// The name of the master is missing.
    #[error(
        "the URL does not name the master that the sentinels watch: add it as in redis-sentinel://a:26379/mymaster"
    )]
    NoMaster,
    /// A cluster has only one database.
    #[error("a cluster has only database 0: leave the text after the addresses out")]
    ClusterDatabase,
    /// The database is not a number.
    #[error("the text after the address is not the number of a database: use 0 to 15, or leave it out")]
    Database,
    /// The percent-encoding of the user or the password is invalid.
    #[error(
        "the percent-encoding of the user or the password is invalid: write `@` as %40, `:` as %3A, `/` as %2F, `%` as %25"
    )]
    Login,
    /// The certificates can't be used.
    #[error("the certificates can't be used: {0}")]
    Certificates(String),
}

impl Target {
    /// Parses a URL; `certificates` are for TLS.
    pub(crate) fn parse(url: &str, certificates: Option<TlsCertificates>) -> Result<(Self, Login), UrlError> {
        let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| is_plain(scheme)).ok_or(UrlError::NoScheme)?;
        let unknown = || UrlError::Scheme { scheme: scheme.to_owned() };
        let name = scheme.replacen("valkey", "redis", 1);
        let (deployment, tls) = match name.strip_prefix("rediss") {
            Some(deployment) => (deployment, true),
            None => (name.strip_prefix("redis").ok_or_else(unknown)?, false),
        };
        if !["", "-cluster", "-sentinel"].contains(&deployment) {
            return Err(unknown());
        }
        let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
        let (addresses, path) = rest.split_once('/').unwrap_or((rest, ""));
        let default_port = if deployment == "-sentinel" { 26379 } else { 6379 };
        let addresses: Vec<Address> =
            addresses.split(',').map(|text| Address::parse(text, default_port)).collect::<Result<_, _>>()?;
        // An ACL user may lack the permission for CLIENT SETINFO.
        let anonymous = RedisConnectionInfo::default().set_skip_set_lib_name();
        let mut settings = anonymous.clone();
        if let Some(login) = login {
            let (user, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
            if !user.is_empty() {
                settings = settings.set_username(percent_decode(user)?);
            }
            if let Some(password) = password {
                settings = settings.set_password(percent_decode(password)?);
            }
        }
        let (target, database) = match deployment {
            "" => {
                let [address] = <[Address; 1]>::try_from(addresses).map_err(|_| UrlError::SeveralServers)?;
                (Self::Server(ServerLocation::Fixed(address)), path)
            }
            "-cluster" if path.is_empty() || path == "0" => (Self::Cluster(addresses), ""),
            "-cluster" => return Err(UrlError::ClusterDatabase),
            _ => {
                let (master, database) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(UrlError::NoMaster);
                }
                // The login of the servers is not sent to the sentinels.
                let login = Login { settings: anonymous, tls, certificates: certificates.clone() };
                let master = percent_decode(master)?;
                (Self::Server(ServerLocation::Sentinel { sentinels: addresses, master, login }), database)
            }
        };
        if !database.is_empty() {
            let number = database.parse().ok().filter(|number| *number >= 0);
            settings = settings.set_db(number.ok_or(UrlError::Database)?);
        }
        Ok((target, Login { settings, tls, certificates }))
    }
}

/// Whether a scheme can be quoted.
fn is_plain(scheme: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-".contains(&byte);
    (1..=40).contains(&scheme.len()) && scheme.bytes().all(is_plain)
}

impl Address {
    fn parse(text: &str, default_port: u16) -> Result<Self, UrlError> {
        let wrong = || UrlError::Address;
        if text.is_empty() {
            return Err(UrlError::NoServer);
        }
        // An IPv6 address is in brackets.
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                (host, port.strip_prefix(':'))
            }
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(Ok(default_port), str::parse).map_err(|_| wrong())?;
        if host.is_empty() || port == 0 || host.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }

    /// The address in a redirection; without a host, it is that of the node that redirects.
    pub(crate) fn redirected(text: &str, from: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let host = if host.is_empty() || host == "?" { &from.host } else { host };
        Some(Self { host: host.to_owned(), port })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Login {
    /// A client that connects to a server.
    pub(crate) fn client(&self, address: &Address) -> Result<Client, UrlError> {
        let Address { host, port } = address.clone();
        let addr = if self.tls {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        let certificates = |error: redis::RedisError| UrlError::Certificates(error.to_string());
        let info: ConnectionInfo = addr.into_connection_info().map_err(certificates)?;
        let info = info.set_redis_settings(self.settings.clone());
        match &self.certificates {
            Some(given) if self.tls => Client::build_with_tls(info, given.clone()).map_err(certificates),
            _ => Client::open(info).map_err(certificates),
        }
    }
}

fn percent_decode(text: &str) -> Result<String, UrlError> {
    let is_code = |rest: &str| rest.as_bytes().get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_code) {
        return Err(UrlError::Login);
    }
    percent_decode_str(text).decode_utf8().map(Cow::into_owned).map_err(|_| UrlError::Login)
}

#[cfg(test)]
mod tests {
    use super::{Address, ServerLocation, Target, UrlError};
    use crate::RedisStore;

    fn parse(url: &str) -> Result<Target, UrlError> {
        Target::parse(url, None).map(|(target, _)| target)
    }

    fn address(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn every_form_of_url_is_parsed() {
        for (url, host, port) in [
            ("redis://localhost", "localhost", 6379),
            ("valkey://h:1/3", "h", 1),
            ("rediss://u:p%40ss@[::1]:7", "::1", 7),
        ] {
            let target = parse(url);
            let is_read =
                matches!(&target, Ok(Target::Server(ServerLocation::Fixed(at))) if *at == address(host, port));
            assert!(is_read, "{target:?}");
        }
        let nodes = [address("a", 6379), address("b", 7000)];
        assert!(matches!(parse("redis-cluster://a:6379,b:7000"), Ok(Target::Cluster(found)) if found == nodes));
        let target = parse("redis-sentinel://a,b:7000/mymaster/2");
        let Ok(Target::Server(ServerLocation::Sentinel { sentinels, master, .. })) = target else {
            panic!("a sentinel URL was not read");
        };
        assert_eq!((sentinels, master.as_str()), (vec![address("a", 26379), address("b", 7000)], "mymaster"));
    }

    #[test]
    fn user_and_password_are_percent_decoded_and_stay_out_of_logs() {
        let (_, login) = Target::parse("redis://app:p%40s%3As@h", None).expect("a URL");
        assert_eq!(login.settings.username(), Some("app"));
        assert_eq!(login.settings.password(), Some("p@s:s"));
        assert!(!format!("{login:?}").contains("p@s"), "{login:?}");
    }

    #[test]
    fn an_invalid_url_is_an_error_that_names_the_problem() {
        let scheme = |scheme: &str| Err(UrlError::Scheme { scheme: scheme.to_owned() });
        let error_of = |url: &str| parse(url).map(|_| ());
        assert_eq!(error_of("http://a"), scheme("http"));
        assert_eq!(error_of("localhost:6379"), Err(UrlError::NoScheme));
        assert_eq!(error_of("redis://"), Err(UrlError::NoServer));
        assert_eq!(error_of("redis-cluster://a,,b"), Err(UrlError::NoServer));
        assert_eq!(error_of("redis://a:port"), Err(UrlError::Address));
        assert_eq!(error_of("redis://a:1,b:2"), Err(UrlError::SeveralServers));
        assert_eq!(error_of("redis-sentinel://a:1"), Err(UrlError::NoMaster));
        assert_eq!(error_of("redis-cluster://a/3"), Err(UrlError::ClusterDatabase));
        assert_eq!(error_of("redis://a/x"), Err(UrlError::Database));
        assert_eq!(error_of("redis://u:%zz@a"), Err(UrlError::Login));
    }

    #[test]
    fn an_error_quotes_no_password() {
        for url in [
            "redis://:s3cret-word",
            "redis://user:s3cret-word",
            "rediss://:s3cret-word:host:6379",
            "redis-cluster://a,:s3cret-word",
            "redis://host:6379/s3cret-word@",
            "redis://user:6379/s3cret-word",
            "redis-cluster://user:6379/s3cret-word",
            "redis:/:s3cret-word@host",
            ":s3cret-word@redis://host",
            "redis://:s3cret-word%@host",
        ] {
            let error = parse(url).expect_err(url);
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{url}: {error}");
        }
        let text = format!("{:?}", RedisStore::builder("redis://user:s3cret-word@host"));
        assert!(text.contains("6379") && !text.contains("s3cret"), "{text}");
    }
}
