//! [`Target`]: where Redis is, as a URL says it.
//!
//! | URL | what |
//! | --- | --- |
//! | `redis://[user[:password]@]host[:port][/db]` | one server |
//! | `rediss://…` | the same over TLS |
//! | `redis-cluster://[user[:password]@]a:6379,b:6379` | a cluster, found through any of these nodes |
//! | `redis-sentinel://[user[:password]@]a:26379,b:26379/mymaster[/db]` | the master that these sentinels name |
//! | `rediss-cluster://…`, `rediss-sentinel://…` | the same over TLS |
//!
//! `valkey` may stand for `redis` in all of them. User and password are percent-encoded where they hold `@`, `:` or `/`.

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates};

/// Where Redis is.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Standalone(Address),
    Cluster(Vec<Address>),
    Sentinel { sentinels: Vec<Address>, master: String, login: Login },
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
    settings: RedisConnectionInfo,
    tls: bool,
    certificates: Option<TlsCertificates>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Passwords stay out of logs.
        f.debug_struct("Login").field("user", &self.settings.username()).field("tls", &self.tls).finish_non_exhaustive()
    }
}

/// Why a URL was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It begins with something else than the forms known.
    #[error(
        "`{scheme}` is not a way to reach redis: use redis://, rediss:// (TLS), redis-cluster://a:6379,b:6379 or \
         redis-sentinel://a:26379,b:26379/mymaster"
    )]
    Scheme {
        /// What stands before `://`.
        scheme: String,
    },
    /// There is no address in it.
    #[error("the URL names no server: write host or host:port after `//`, several separated by commas")]
    NoServer,
    /// An address can't be read.
    #[error("`{address}` is not an address: write host or host:port, such as 127.0.0.1:6379")]
    Address {
        /// What was written.
        address: String,
    },
    /// The name of the master is missing.
    #[error(
        "the URL does not name the master that the sentinels watch: add it as in redis-sentinel://a:26379/mymaster"
    )]
    NoMaster,
    /// A cluster has only one database.
    #[error("a cluster has only database 0: leave `/{path}` out")]
    ClusterDatabase {
        /// What follows the addresses.
        path: String,
    },
    /// The database is not a number.
    #[error("`{path}` is not the number of a database: use 0 to 15, or leave it out")]
    Database {
        /// What follows the addresses.
        path: String,
    },
    /// The user or the password is not well percent-encoded.
    #[error(
        "the user or the password is not well percent-encoded: write `@` as %40, `:` as %3A, `/` as %2F, `%` as %25"
    )]
    Login,
    /// The certificates can't be used.
    #[error("the certificates can't be used: {0}")]
    Certificates(String),
}

impl Target {
    /// Reads a URL; `certificates` are for TLS.
    pub(crate) fn parse(url: &str, certificates: Option<TlsCertificates>) -> Result<(Self, Login), UrlError> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let (kind, tls) = match scheme.replacen("valkey", "redis", 1).as_str() {
            "redis" => (Kind::Standalone, false),
            "rediss" => (Kind::Standalone, true),
            "redis-cluster" => (Kind::Cluster, false),
            "rediss-cluster" => (Kind::Cluster, true),
            "redis-sentinel" => (Kind::Sentinel, false),
            "rediss-sentinel" => (Kind::Sentinel, true),
            _ => return Err(UrlError::Scheme { scheme: scheme.to_owned() }),
        };
        let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
        let (addresses, path) = rest.split_once('/').unwrap_or((rest, ""));
        let default_port = if matches!(kind, Kind::Sentinel) { 26379 } else { 6379 };
        let addresses: Vec<Address> =
            addresses.split(',').map(|text| Address::parse(text, default_port)).collect::<Result<_, _>>()?;
        // Not every ACL user may name itself.
        let mut settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(login) = login {
            let (user, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
            if !user.is_empty() {
                settings = settings.set_username(percent_decode(user)?);
            }
            if let Some(password) = password {
                settings = settings.set_password(percent_decode(password)?);
            }
        }
        let database = |path: &str| -> Result<i64, UrlError> {
            if path.is_empty() {
                return Ok(0);
            }
            path.parse().ok().filter(|db| *db >= 0).ok_or(UrlError::Database { path: path.to_owned() })
        };
        match kind {
            Kind::Standalone => {
                let settings = settings.set_db(database(path)?);
                let [address] = <[Address; 1]>::try_from(addresses)
                    .map_err(|several| UrlError::Address { address: join(&several) })?;
                Ok((Self::Standalone(address), Login { settings, tls, certificates }))
            }
            Kind::Cluster if path.is_empty() || path == "0" => {
                Ok((Self::Cluster(addresses), Login { settings, tls, certificates }))
            }
            Kind::Cluster => Err(UrlError::ClusterDatabase { path: path.to_owned() }),
            Kind::Sentinel => {
                let (master, db) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(UrlError::NoMaster);
                }
                let settings = settings.set_db(database(db)?);
                // Sentinels are asked without a login: theirs is another one than that of the servers they watch.
                let open = Login {
                    settings: RedisConnectionInfo::default().set_skip_set_lib_name(),
                    tls,
                    certificates: certificates.clone(),
                };
                let target = Self::Sentinel { sentinels: addresses, master: percent_decode(master)?, login: open };
                Ok((target, Login { settings, tls, certificates }))
            }
        }
    }
}

enum Kind {
    Standalone,
    Cluster,
    Sentinel,
}

fn join(addresses: &[Address]) -> String {
    addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(",")
}

impl Address {
    fn parse(text: &str, default_port: u16) -> Result<Self, UrlError> {
        let wrong = || UrlError::Address { address: text.to_owned() };
        if text.is_empty() {
            return Err(UrlError::NoServer);
        }
        // An IPv6 address stands in brackets.
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

    /// The address that a redirection names; without a host, that of the node that said so.
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
    /// The number of the database.
    pub(crate) fn database(&self) -> i64 {
        self.settings.db()
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls
    }

    /// User, password and database.
    pub(crate) fn settings(&self) -> &RedisConnectionInfo {
        &self.settings
    }

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
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next(), rest.next()].map(|digit| digit.and_then(|d| char::from(d).to_digit(16)));
            let [Some(high), Some(low)] = digits else { return Err(UrlError::Login) };
            bytes.push(u8::try_from(high * 16 + low).map_err(|_| UrlError::Login)?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| UrlError::Login)
}

#[cfg(test)]
mod tests {
    use super::{Address, Target, UrlError};

    fn parse(url: &str) -> Result<Target, UrlError> {
        Target::parse(url, None).map(|(target, _)| target)
    }

    fn address(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn every_form_of_url_is_read() {
        assert!(matches!(parse("redis://localhost"), Ok(Target::Standalone(at)) if at == address("localhost", 6379)));
        assert!(matches!(parse("valkey://h:1/3"), Ok(Target::Standalone(at)) if at == address("h", 1)));
        assert!(matches!(parse("rediss://u:p%40ss@[::1]:7"), Ok(Target::Standalone(at)) if at == address("::1", 7)));
        let nodes = [address("a", 6379), address("b", 7000)];
        assert!(matches!(parse("redis-cluster://a:6379,b:7000"), Ok(Target::Cluster(found)) if found == nodes));
        let Ok(Target::Sentinel { sentinels, master, .. }) = parse("redis-sentinel://a,b:7000/mymaster/2") else {
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
    fn a_bad_url_is_refused_by_what_is_wrong_with_it() {
        let scheme = |scheme: &str| Err(UrlError::Scheme { scheme: scheme.to_owned() });
        let told = |url: &str| parse(url).map(|_| ());
        assert_eq!(told("http://a"), scheme("http"));
        assert_eq!(told("localhost:6379"), scheme("localhost:6379"));
        assert_eq!(told("redis://"), Err(UrlError::NoServer));
        assert_eq!(told("redis-cluster://a,,b"), Err(UrlError::NoServer));
        assert_eq!(told("redis://a:port"), Err(UrlError::Address { address: "a:port".to_owned() }));
        assert_eq!(told("redis://a:1,b:2"), Err(UrlError::Address { address: "a:1,b:2".to_owned() }));
        assert_eq!(told("redis-sentinel://a:1"), Err(UrlError::NoMaster));
        assert_eq!(told("redis-cluster://a/3"), Err(UrlError::ClusterDatabase { path: "3".to_owned() }));
        assert_eq!(told("redis://a/x"), Err(UrlError::Database { path: "x".to_owned() }));
        assert_eq!(told("redis://u:%zz@a"), Err(UrlError::Login));
    }
}
