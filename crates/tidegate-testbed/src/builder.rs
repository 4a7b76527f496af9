//! [`ServerBuilder`]: how a server is to be.

use crate::server::Server;

/// How a [`Server`] is to be. It keeps nothing on disk unless asked to.
#[derive(Debug, Clone, Default)]
pub struct ServerBuilder {
    pub(crate) config: Vec<(String, String)>,
    pub(crate) port: Option<u16>,
    pub(crate) password: Option<String>,
    pub(crate) tls: bool,
    pub(crate) sentinel: bool,
}

impl ServerBuilder {
    /// Sets a directive of redis.conf: `arg("maxmemory", "10mb")`, or `"--maxmemory"`. Quotes are as in that file.
    #[must_use]
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.config.push((name.trim_start_matches("--").to_owned(), value.to_owned()));
        self
    }

    /// Writes every command to disk before it is answered, so that a killed server comes back with its keys.
    #[must_use]
    pub fn persist(self) -> Self {
        self.arg("appendonly", "yes").arg("appendfsync", "always")
    }

    /// Asks everyone for this password, which [`Server::url`] and [`Server::wire`] then give. Letters and digits only.
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

    /// Talks TLS only, with a certificate of [`Server::ca_pem`] for 127.0.0.1 and localhost.
    ///
    /// [`Server::wire`] goes round it, by a unix socket.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Listens on this port instead of any free one.
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

    /// A sentinel: it is no store, and keeps its state in its configuration.
    pub(crate) fn sentinel() -> Self {
        Self { sentinel: true, ..Self::default() }
    }
}
