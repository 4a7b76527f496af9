//! [`ServerBuilder`]: the settings of a server.

use crate::server::Server;

/// The settings of a [`Server`]. By default, the server writes nothing to disk.
#[derive(Debug, Clone, Default)]
pub struct ServerBuilder {
    pub(crate) config: Vec<(String, String)>,
    pub(crate) port: Option<u16>,
    pub(crate) password: Option<String>,
    pub(crate) tls: bool,
    pub(crate) sentinel: bool,
}

impl ServerBuilder {
    /// Sets a directive of redis.conf: `arg("maxmemory", "10mb")`, or `"--maxmemory"`. Quotes work as in that file.
    #[must_use]
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.config.push((name.trim_start_matches("--").to_owned(), value.to_owned()));
        self
    }

    /// Writes every command to disk before the reply, so that a killed server keeps its keys.
    #[must_use]
    pub fn persist(self) -> Self {
        self.arg("appendonly", "yes").arg("appendfsync", "always")
    }

    /// Requires this password, which consists of letters and digits. [`Server::url`] and [`Server::wire`] use it.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.arg("requirepass", password)
    }

    /// Adds a user with a password and rules such as `~tidegate:* +@all -@dangerous`.
    #[must_use]
    pub fn acl_user(self, name: &str, password: &str, rules: &str) -> Self {
        self.arg("user", &format!("{name} on >{password} {rules}"))
    }

    /// Accepts TLS only, with a certificate for 127.0.0.1 and localhost that [`Server::ca_pem`] signs.
    ///
    /// [`Server::wire`] uses a unix socket without TLS.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Listens on this port instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts the server and waits until it answers.
    #[track_caller]
    pub fn start(self) -> Server {
        Server::launch(self)
    }

    /// The settings of a sentinel, which has no keys and keeps its state in its configuration file.
    pub(crate) fn sentinel() -> Self {
        Self { sentinel: true, ..Self::default() }
    }
}
