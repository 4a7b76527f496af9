//! A `redis-server` process that ends with this process at the latest.

use std::{
    fs::File,
    io,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::wait::wait_for;

pub(crate) struct Process {
    server: Child,
    /// Kills the server and removes its directory when our end of its standard input closes. That happens however this
    /// process ends: a value in a `static` is never dropped, and a test runner may kill us.
    watchdog: Child,
    paused: bool,
}

impl Process {
    /// Starts redis with this configuration and appends its output to `log`. No other server uses the directory.
    pub(crate) fn start(dir: &Path, config: &Path, sentinel: bool, log: &File) -> Self {
        let server = Command::new("redis-server")
            .arg(config)
            .args(sentinel.then_some("--sentinel"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be cloned"))
            .stderr(log.try_clone().expect("a file can be cloned"))
            .spawn();
        let server = match server {
            Ok(server) => server,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                panic!("redis-server is not installed: apt-get install redis-server")
            }
            Err(error) => panic!("cannot run redis-server: {error}"),
        };
        let watchdog = Command::new("sh")
            .args(["-c", "trap '' HUP INT TERM; read _; kill -KILL $0; rm -rf \"$1\"", &server.id().to_string()])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts");
        Self { server, watchdog, paused: false }
    }

    /// Whether the process has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.server.try_wait().expect("it is our child").is_some()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Stops the process (`SIGSTOP`) and waits until it is stopped.
    pub(crate) fn pause(&mut self) {
        self.signal(Signal::STOP);
        let pid = Pid::from_child(&self.server);
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), stopped).expect("it is our child");
        self.paused = true;
    }

    pub(crate) fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.paused = false;
    }

    /// Requests a shutdown (`SIGTERM`) and waits for it.
    pub(crate) fn stop(mut self) {
        self.resume();
        self.signal(Signal::TERM);
        wait_for("redis-server to shut down", Duration::from_secs(15), || {
            if self.has_ended() { Ok(()) } else { Err("it is still running".into()) }
        });
    }

    #[track_caller]
    fn signal(&mut self, signal: Signal) {
        assert!(!self.has_ended(), "redis-server has ended by itself");
        kill_process(Pid::from_child(&self.server), signal).expect("it is our child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog first: it must not kill another process that gets the server's id afterwards. An error is
        // ignored, because a drop during a panic must not panic.
        for child in [&mut self.watchdog, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
