//! [`ServerSettings`] and [`StoreSettings`]: the settings of `[server]` and `[store]`, with their defaults.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use ipnet::IpNet;
use tidegate::{AtCapacity, Share};
use tidegate_remote::RemoteStore;
use tidegate_tower::{ClientAddress, HeaderFormat};

use super::{
    error::{ConfigError, Origin},
    file::{ServerTable, StoreTable},
    values::{Count, List, Listen, Net, Plain, Secret, ShareNumber, Size, Switch, Text, Time, TimeOrOff},
};
use crate::store::{check_url, is_remote};

/// Minimum number of characters of a token.
const MIN_TOKEN: usize = 8;

/// The networks of this machine. Proxies there are trusted by default.
const LOOPBACK: [IpNet; 2] = [
    IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    IpNet::new_assert(IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
];

/// The settings of `[server]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    /// The address for HTTP; `None` if it is off.
    pub http: Option<SocketAddr>,
    /// The address for RESP; `None` if it is off.
    pub resp: Option<SocketAddr>,
    /// The address for gRPC; `None` if it is off.
    pub grpc: Option<SocketAddr>,
    /// The certificate and its key, for all listeners.
    pub tls: Option<Tls>,
    /// The tokens.
    pub tokens: Tokens,
    /// Host names of this service, in addition to `localhost` and IP addresses; `*` permits any.
    pub hosts: Vec<String>,
    /// The rate limit headers of HTTP responses.
    pub headers: HeaderFormat,
    /// How the address of a forwarded client is found.
    pub forwarding: Forwarding,
    /// Limits supplied by callers.
    pub caller_limits: CallerLimits,
    /// Bounds for input and connections.
    pub bounds: Bounds,
    /// How long a stopping service waits for open connections.
    pub drain: Duration,
    /// Whether a reload may remove all policies, or more than it keeps.
    pub allow_removal: bool,
}

/// Files of a certificate chain and of its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// The tokens of the service; `None` if none is needed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Needed for decisions.
    pub usage: Option<String>,
    /// Needed to refund, reset, inspect and override; valid for decisions, too.
    pub admin: Option<String>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens {{ usage: {}, admin: {} }}", self.usage.is_some(), self.admin.is_some())
    }
}

/// How the address of a forwarded client is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarding {
    /// The trusted proxies.
    pub client: ClientAddress,
    /// Whether trusted proxies are configured; the default is loopback.
    pub is_configured: bool,
}

/// Limits supplied by callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerLimits {
    /// Whether callers may supply limits.
    pub allowed: bool,
    /// The longest window that callers may supply.
    pub max_window: Duration,
}

/// Bounds for input and connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum bytes of a body, and of a command.
    pub body: usize,
    /// Maximum connections of each transport.
    pub connections: usize,
    /// Maximum connections of each transport from one address, or from one IPv6 network (/64).
    pub connections_per_address: usize,
    /// Maximum bytes of unread responses of each transport.
    pub response_memory: usize,
    /// How long a head, a body or a handshake may take to arrive.
    pub header_timeout: Duration,
    /// How long a peer may leave a response unread.
    pub write_timeout: Duration,
    /// Delay of the answer to a wrong token after too many wrong tokens from its address.
    pub wrong_token_delay: Duration,
    /// How long a RESP connection may be idle; `None` permits any time, as in Redis.
    pub idle_timeout: Option<Duration>,
}

/// The settings of `[store]`.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// `memory`, or the URL of a Redis or of another service.
    pub url: String,
    /// Maximum duration of a decision.
    pub timeout: Duration,
    /// Maximum number of keys in memory.
    pub max_keys: usize,
    /// Maximum number of keys in the database of each Redis server, if `max_keys` is set.
    pub redis_max_keys: Option<usize>,
    /// Maximum bytes of all states in memory.
    pub max_bytes: usize,
    /// What happens to a new key when there is no room.
    pub at_capacity: AtCapacity,
    /// The share of keys and bytes in memory that may be used for limits supplied by callers.
    pub caller_share: Share,
    /// The prefix of all keys in Redis.
    pub prefix: String,
    /// Trusted certificates for Redis or another service.
    pub tls_ca: Option<PathBuf>,
}

impl ServerSettings {
    pub(super) fn new(table: ServerTable, origin: &Origin<'_>) -> Result<Self, ConfigError> {
        let error = |key: &str, message: &str| origin.error_at("server", key, message);
        let listen = |listen: Option<Listen>, port| match listen {
            Some(Listen(address)) => address,
            None => Some(SocketAddr::from(([127, 0, 0, 1], port))),
        };
        let time = |time: Option<Time>, seconds| time.map_or(Duration::from_secs(seconds), |Time(time)| time);
        let tls = match (table.tls_cert, table.tls_key) {
            (Some(Plain(cert)), Some(Plain(key))) => Some(Tls { cert: cert.into(), key: key.into() }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(error("tls_cert", "`tls_cert` is set without `tls_key`: set both or neither"));
            }
            (None, Some(_)) => {
                return Err(error("tls_key", "`tls_key` is set without `tls_cert`: set both or neither"));
            }
        };
        if table.trusted_proxies.is_some() && table.trusted_hops.is_some() {
            return Err(error("trusted_hops", "`trusted_proxies` and `trusted_hops` exclude each other: use one"));
        }
        let is_configured = table.trusted_proxies.is_some() || table.trusted_hops.is_some();
        let client = match (table.trusted_hops, table.trusted_proxies) {
            (Some(Count(hops)), _) => ClientAddress::behind_hops(hops).map_err(|_| {
                error("trusted_hops", "0 hops would trust no proxy: use 1 or more, or `trusted_proxies = []`")
            })?,
            (None, Some(List(nets))) => ClientAddress::behind(nets.into_iter().map(|Net(net)| net)),
            (None, None) => ClientAddress::behind(LOOPBACK),
        };
        let prefix = table.ipv6_prefix.map_or(64, |Count(bits)| bits);
        let client = client
            .with_ipv6_prefix(u8::try_from(prefix).unwrap_or(0))
            .map_err(|_| error("ipv6_prefix", &format!("{prefix} bits are out of range: use 1 to 128")))?;
        let forwarding = Forwarding { client, is_configured };
        let token = |name: &str, token: Option<Secret>| match token.map(|Secret(token)| token) {
            Some(token) if token.len() < MIN_TOKEN => {
                let count = token.len();
                let message = format!("`{name}` is too short with {count} characters: use {MIN_TOKEN} or more");
                Err(error(name, &message))
            }
            Some(token) if !token.bytes().all(|b| b.is_ascii_graphic()) => {
                let message =
                    format!("`{name}` has a space or a letter that is not ASCII: use printable ASCII without spaces");
                Err(error(name, &message))
            }
            token => Ok(token),
        };
        let tokens = Tokens { usage: token("token", table.token)?, admin: token("admin_token", table.admin_token)? };
        if tokens.usage.is_some() && tokens.admin.is_none() {
            let message = "`token` without `admin_token` would leave reset, refund and inspect open: set both";
            return Err(error("token", message));
        }
        let caller_limits = CallerLimits {
            allowed: table.caller_limits.is_none_or(|Switch(is_on)| is_on),
            max_window: time(table.caller_max_window, 86_400),
        };
        let connections = table.max_connections.map_or(10_000, |Count(count)| count);
        let bounds = Bounds {
            body: table.max_body.map_or(64_000, |Size(bytes)| bytes),
            connections,
            connections_per_address: table
                .max_connections_per_address
                .map_or(connections.min(2_500), |Count(count)| count),
            response_memory: table.max_response_memory.map_or(64_000_000, |Size(bytes)| bytes),
            header_timeout: time(table.header_timeout, 30),
            write_timeout: time(table.write_timeout, 30),
            wrong_token_delay: time(table.wrong_token_delay, 3),
            idle_timeout: table.idle_timeout.and_then(|TimeOrOff(time)| time),
        };
        for (key, is_in_range, range) in [
            ("max_body", (1_000..=16_000_000).contains(&bounds.body), "1kB to 16MB"),
            ("max_connections", (1..=1_000_000).contains(&connections), "1 to 1000000"),
            (
                "max_connections_per_address",
                (1..=connections).contains(&bounds.connections_per_address),
                "1 to `max_connections`",
            ),
            ("max_response_memory", bounds.response_memory >= 1_000_000, "1MB or more"),
            ("wrong_token_delay", bounds.wrong_token_delay <= Duration::from_secs(60), "at most 1m"),
        ] {
            if !is_in_range {
                return Err(error(key, &format!("`{key}` is out of range: use {range}")));
            }
        }
        Ok(Self {
            http: listen(table.http, 8080),
            resp: listen(table.resp, 6380),
            grpc: listen(table.grpc, 8081),
            tls,
            tokens,
            hosts: table.hosts.map_or(Vec::new(), |List(hosts)| hosts.into_iter().map(|Plain(host)| host).collect()),
            headers: table.headers.map_or(HeaderFormat::default(), |Text(format)| format),
            forwarding,
            caller_limits,
            bounds,
            drain: time(table.drain, 10),
            allow_removal: table.allow_removal.is_some_and(|Switch(is_on)| is_on),
        })
    }
}

/// Without the URL, which may have a password or a token.
impl fmt::Debug for StoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { timeout, max_keys, max_bytes, prefix, tls_ca, .. } = self;
        let mut text = f.debug_struct("StoreSettings");
        text.field("timeout", timeout).field("max_keys", max_keys).field("max_bytes", max_bytes);
        text.field("prefix", prefix).field("tls_ca", tls_ca).finish_non_exhaustive()
    }
}

impl StoreSettings {
    pub(super) fn new(table: StoreTable, origin: &Origin<'_>) -> Result<Self, ConfigError> {
        let url = table.url.map_or_else(|| "memory".to_owned(), |Plain(url)| url);
        if let Err(error) = check_url(&url) {
            // The URL is not quoted, because it may contain a password.
            let message = format!(
                "the url is not one of a store: use memory, redis://…, rediss://…, redis-cluster://…, redis-sentinel://… or \
                 tidegate://… ({error})"
            );
            return Err(origin.error_at("store", "url", message));
        }
        // Another service is usually far away.
        let default_timeout = if is_remote(&url) { RemoteStore::DEFAULT_TIMEOUT } else { Duration::from_millis(15) };
        let settings = Self {
            url,
            timeout: table.timeout.map_or(default_timeout, |Time(time)| time),
            max_keys: table.max_keys.map_or(1_000_000, |Count(count)| count),
            redis_max_keys: table.max_keys.map(|Count(count)| count),
            max_bytes: table.max_bytes.map_or(512_000_000, |Size(bytes)| bytes),
            at_capacity: table.at_capacity.map_or(AtCapacity::default(), |Text(choice)| choice),
            caller_share: table.caller_share.map_or(Share::HALF, |ShareNumber(share)| share),
            prefix: table.prefix.map_or_else(|| "tg".to_owned(), |Plain(prefix)| prefix),
            tls_ca: table.tls_ca.map(|Plain(path)| path.into()),
        };
        if settings.max_keys == 0 {
            return Err(origin.error_at("store", "max_keys", "`max_keys` of 0 would permit no key: use 1 or more"));
        }
        let plain = |b: u8| b.is_ascii_graphic() && !b"{}".contains(&b);
        if settings.prefix.is_empty() || settings.prefix.len() > 64 || !settings.prefix.bytes().all(plain) {
            let message = "`prefix` is invalid: use 1 to 64 printable ASCII characters without spaces and braces";
            return Err(origin.error_at("store", "prefix", message));
        }
        Ok(settings)
    }
}
