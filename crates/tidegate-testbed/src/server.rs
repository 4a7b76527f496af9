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
    builder::ServerBuilder, patience::wait_for, port::free_port, process::Process, reply::Reply, tls::Certificates,
    wire::Wire,
};

/// How long a server may take until it answers.
const START: Duration = Duration::from_secs(10);

/// A redis server on 127.0.0.1 that is killed when this is dropped.
pub struct Server {
    port: u16,
    wanted: ServerBuilder,
    certificates: Option<Certificates>,
    process: Mutex<Option<Process>>,
    // Dropped after the process, which writes there.
    dir: TempDir,
}

impl Server {
    /// Starts a server that keeps nothing on disk, and waits until it answers.
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server to be.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    #[track_caller]
    pub(crate) fn launch(wanted: ServerBuilder) -> Self {
        let dir = tempfile::Builder::new().prefix("tidegate-redis-").tempdir().expect("a temporary directory");
        let certificates = wanted.tls.then(|| Certificates::make(dir.path()));
        let mut server = Self { port: 0, wanted, certificates, process: Mutex::new(None), dir };
        let process = wait_for("a server to start", START, || {
            server.port = server.wanted.port.unwrap_or_else(free_port);
            fs::write(server.config(), server.config_text()).expect("the directory takes files");
            server.try_run()
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

    /// `redis://127.0.0.1:1234`, with the password if there is one, and `rediss` if it talks TLS.
    pub fn url(&self) -> String {
        match &self.wanted.password {
            Some(password) => self.url_as("", password),
            None => format!("{}://{}", self.scheme(), self.addr()),
        }
    }

    /// The address of the server for a user of [`ServerBuilder::acl_user`].
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("{}://{user}:{password}@{}", self.scheme(), self.addr())
    }

    /// The certificate of the authority that a TLS client has to trust.
    #[track_caller]
    pub fn ca_pem(&self) -> &Path {
        &self.certificates.as_ref().expect("the server talks no TLS").ca
    }

    /// Connects to the server, and gives the password.
    #[track_caller]
    pub fn wire(&self) -> Wire {
        self.try_wire().unwrap_or_else(|error| panic!("cannot connect to {}: {error}", self.addr()))
    }

    /// Connects to the server, if it is there.
    ///
    /// # Errors
    /// If it does not listen, or not answer to the password.
    pub fn try_wire(&self) -> io::Result<Wire> {
        if self.wanted.tls {
            return self.side_door();
        }
        self.authenticated(Wire::try_connect(self.addr())?)
    }

    /// Connects by the unix socket in the server's own directory: no other server can answer there, and looking often
    /// leaves no closed TCP connections behind.
    pub(crate) fn side_door(&self) -> io::Result<Wire> {
        self.authenticated(Wire::try_connect_unix(&self.socket())?)
    }

    /// Asks one thing by that door. An error is that there was no reply.
    pub(crate) fn ask<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> Result<Reply, String> {
        let reply = self.side_door().and_then(|mut wire| wire.try_command(args));
        reply.map_err(|error| format!("{self:?} does not answer: {error}"))
    }

    fn authenticated(&self, mut wire: Wire) -> io::Result<Wire> {
        if let Some(password) = &self.wanted.password {
            wire.try_command(["AUTH", password])?;
        }
        Ok(wire)
    }

    /// Stops the process in the middle of whatever it does (`SIGSTOP`). Connections stay open and silent.
    pub fn pause(&self) {
        self.process().as_mut().expect("the server runs").pause();
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        self.process().as_mut().expect("the server runs").resume();
    }

    /// Kills the process (`SIGKILL`) and waits until it is gone.
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Shuts down in an orderly way (`SIGTERM`) and waits until it is done.
    pub fn stop(&self) {
        if let Some(process) = self.process().take() {
            process.stop();
        }
    }

    /// Starts again on the same port, in the same directory and with the same arguments, and waits until it answers.
    ///
    /// A server that still runs is killed.
    #[track_caller]
    pub fn restart(&self) {
        let mut process = self.process();
        *process = None;
        *process = Some(wait_for("a server to start again", START, || self.try_run()));
    }

    /// Whether the process is there and not paused.
    pub fn is_up(&self) -> bool {
        self.process().as_mut().is_some_and(|process| !process.is_paused() && !process.has_ended())
    }

    /// What the server has said so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Starts a process and waits until it answers. An error is that somebody else has the port.
    #[track_caller]
    fn try_run(&self) -> Result<Process, String> {
        let log = File::options().create(true).append(true).open(self.log_file()).expect("the directory takes files");
        let said_before = self.log().len();
        let mut process = Process::start(self.dir.path(), &self.config(), self.wanted.sentinel, &log);
        let answer = wait_for("PING to be answered", START, || {
            if process.has_ended() {
                return Ok(Err(format!("redis-server on port {} ended:\n{}", self.port, self.log())));
            }
            self.ping().map(Ok).map_err(|why| format!("{why}\n{}", self.log()))
        });
        match answer {
            Ok(()) => Ok(process),
            Err(why) if self.log()[said_before..].contains("Failed listening on") => Err(why),
            Err(why) => panic!("{why}"),
        }
    }

    fn ping(&self) -> Result<(), String> {
        match self.ask(["PING"])? {
            Reply::Error(error) if error.starts_with("LOADING") => Err(error),
            // Even a refusal is an answer.
            _ => Ok(()),
        }
    }

    fn config_text(&self) -> String {
        let mut text = String::new();
        let mut set = |name: &str, value: &str| {
            let value = if value.is_empty() { "\"\"" } else { value };
            writeln!(text, "{name} {value}").expect("a string takes anything");
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
        if !self.wanted.sentinel {
            set("save", "");
            set("appendonly", "no");
        }
        for (name, value) in &self.wanted.config {
            set(name, value);
        }
        text
    }

    fn scheme(&self) -> &'static str {
        if self.wanted.tls { "rediss" } else { "redis" }
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
        // Poisoned by a panic in a wait, which leaves the process as it is.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.addr())
    }
}
