//! [`Server`]: one redis server.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    builder::ServerBuilder, port::free_port, process::Process, reply::Reply, tls::Certificates, wait::wait_for,
    wire::Wire,
};

/// Maximum time until a server replies.
const START: Duration = Duration::from_secs(10);

/// A redis server on 127.0.0.1 that is killed when this is dropped.
pub struct Server {
    port: u16,
    settings: ServerBuilder,
    certificates: Option<Certificates>,
    process: Mutex<Option<Process>>,
    // Dropped last, because the process writes there.
    dir: TempDir,
}

impl Server {
    /// Starts a server that writes nothing to disk, and waits until it replies.
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Settings for a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    #[track_caller]
    pub(crate) fn launch(settings: ServerBuilder) -> Self {
        let dir = tempfile::Builder::new().prefix("tidegate-redis-").tempdir().expect("a temporary directory");
        let certificates = settings.tls.then(|| Certificates::create(dir.path()));
        let mut server = Self { port: 0, settings, certificates, process: Mutex::new(None), dir };
        let process = wait_for("a server to start", START, || {
            server.port = server.settings.port.unwrap_or_else(free_port);
            fs::write(server.config(), server.config_text()).expect("the directory is writable");
            server.try_start()
        });
        *server.process() = Some(process);
        server
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:1234`
    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `redis://127.0.0.1:1234`, with the password if there is one, and with `rediss` for TLS.
    pub fn url(&self) -> String {
        match &self.settings.password {
            Some(password) => self.url_as("", password),
            None => format!("{}://{}", self.scheme(), self.addr()),
        }
    }

    /// The address of the server for a user of [`ServerBuilder::acl_user`].
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("{}://{user}:{password}@{}", self.scheme(), self.addr())
    }

    /// The path of the certificate that a TLS client must trust.
    #[track_caller]
    pub fn ca_pem(&self) -> &Path {
        &self.certificates.as_ref().expect("the server has no TLS").ca
    }

    /// Connects to the server and sends the password.
    #[track_caller]
    pub fn wire(&self) -> Wire {
        self.try_wire().unwrap_or_else(|error| panic!("cannot connect to {}: {error}", self.addr()))
    }

    /// Connects to the server and sends the password.
    ///
    /// # Errors
    /// If the server does not listen, or does not reply to the password.
    pub fn try_wire(&self) -> io::Result<Wire> {
        if self.settings.tls {
            return self.connect_by_socket();
        }
        self.authenticated(Wire::try_connect(self.addr())?)
    }

    /// Connects by the unix socket in the server's directory. No other server can reply there, and frequent attempts
    /// leave no closed TCP connections behind.
    pub(crate) fn connect_by_socket(&self) -> io::Result<Wire> {
        self.authenticated(Wire::try_connect_unix(&self.socket())?)
    }

    /// Sends one command over the unix socket. Returns an error if there was no reply.
    pub(crate) fn query<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> Result<Reply, String> {
        let reply = self.connect_by_socket().and_then(|mut wire| wire.try_command(args));
        reply.map_err(|error| format!("{self:?} does not reply: {error}"))
    }

    fn authenticated(&self, mut wire: Wire) -> io::Result<Wire> {
        if let Some(password) = &self.settings.password {
            wire.try_command(["AUTH", password])?;
        }
        Ok(wire)
    }

    /// Stops the process (`SIGSTOP`). Connections stay open without replies.
    pub fn pause(&self) {
        self.process().as_mut().expect("the server runs").pause();
    }

    /// Continues a paused process.
    pub fn resume(&self) {
        self.process().as_mut().expect("the server runs").resume();
    }

    /// Kills the process (`SIGKILL`) and waits until it has ended.
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Shuts the server down (`SIGTERM`) and waits until it has ended.
    pub fn stop(&self) {
        if let Some(process) = self.process().take() {
            process.stop();
        }
    }

    /// Starts again on the same port, in the same directory and with the same settings. Waits until it replies.
    ///
    /// A server that still runs is killed.
    #[track_caller]
    pub fn restart(&self) {
        let mut process = self.process();
        *process = None;
        *process = Some(wait_for("a server to start again", START, || self.try_start()));
    }

    /// Whether the process runs and is not paused.
    pub fn is_up(&self) -> bool {
        self.process().as_mut().is_some_and(|process| !process.is_paused() && !process.has_ended())
    }

    /// The output of the server so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Starts a process and waits until it replies. Returns an error if another process uses the port.
    #[track_caller]
    fn try_start(&self) -> Result<Process, String> {
        let log = File::options().create(true).append(true).open(self.log_file()).expect("the directory is writable");
        let log_start = self.log().len();
        let mut process = Process::start(self.dir.path(), &self.config(), self.settings.sentinel, &log);
        let reply = wait_for("a reply to PING", START, || {
            if process.has_ended() {
                return Ok(Err(format!("redis-server on port {} ended:\n{}", self.port, self.log())));
            }
            self.ping().map(Ok).map_err(|error| format!("{error}\n{}", self.log()))
        });
        match reply {
            Ok(()) => Ok(process),
            Err(error) if self.log()[log_start..].contains("Failed listening on") => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    fn ping(&self) -> Result<(), String> {
        match self.query(["PING"])? {
            Reply::Error(error) if error.starts_with("LOADING") => Err(error),
            // Any other error is a reply, too.
            _ => Ok(()),
        }
    }

    fn config_text(&self) -> String {
        let mut text = String::new();
        let mut set = |name: &str, value: &str| {
            let value = if value.is_empty() { "\"\"" } else { value };
            writeln!(text, "{name} {value}").expect("writing to a string cannot fail");
        };
        let path = |path: &Path| path.to_str().expect("temporary directories have plain names").to_owned();
        let port = self.port.to_string();
        set("bind", "127.0.0.1");
        set("dir", &path(self.dir.path()));
        set("unixsocket", &path(&self.socket()));
        match &self.certificates {
            None => set("port", &port),
            Some(files) => {
                set("port", "0");
                set("tls-port", &port);
                set("tls-auth-clients", "no");
                set("tls-ca-cert-file", &path(&files.ca));
                set("tls-cert-file", &path(&files.server));
                set("tls-key-file", &path(&files.key));
            }
        }
        if !self.settings.sentinel {
            set("save", "");
            set("appendonly", "no");
        }
        for (name, value) in &self.settings.config {
            set(name, value);
        }
        text
    }

    fn scheme(&self) -> &'static str {
        if self.settings.tls { "rediss" } else { "redis" }
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("redis.conf")
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("redis.log")
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        // A panic in a wait poisons the lock, but leaves the process valid.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.addr())
    }
}
