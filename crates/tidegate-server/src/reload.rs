//! [`FileWatcher`]: reads the files of a service again when they change or on SIGHUP.
//!
//! Files are read on threads for blocking work, one at a time and with a timeout. A file system that hangs blocks one such thread
//! and nothing else.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::{Mutex, oneshot},
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Config, ConfigError, FileError, FileVersion, ServerSettings, SettingSources},
    connections::Certificates,
    service::{CERTIFICATE_REFUSED, CONFIGURATION_REFUSED, Service},
};

/// The time between two checks of the files. Polling works on every file system and through the links that orchestrators swap;
/// notifications do not.
const INTERVAL: Duration = Duration::from_millis(400);

/// How long reading a file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The files of a service.
#[derive(Debug)]
pub(crate) struct FileWatcher {
    service: Arc<Service>,
    certificates: Option<Arc<Certificates>>,
    /// The configuration at the start, without its policies.
    config: Config,
    sources: SettingSources,
    reader: Reader,
    /// Whether the configuration file could not be read. Then it is read again.
    unread: AtomicBool,
    /// The version of the configuration that was read last, whether it was activated or refused.
    last_read: parking_lot::Mutex<Option<FileVersion>>,
    /// Whether the certificate or its key could not be read.
    keys_unread: AtomicBool,
    /// Permits one reload at a time, so that the file that was read last is the active one.
    reloading: Mutex<()>,
}

impl FileWatcher {
    pub(crate) fn new(
        service: Arc<Service>,
        certificates: Option<Arc<Certificates>>,
        config: Config,
        sources: SettingSources,
    ) -> Self {
        Self {
            service,
            certificates,
            last_read: parking_lot::Mutex::new(config.file.as_ref().map(|_| config.version)),
            config,
            sources,
            reader: Reader::default(),
            unread: AtomicBool::new(false),
            keys_unread: AtomicBool::new(false),
            reloading: Mutex::default(),
        }
    }

    /// Reads changed files again, until the service stops.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut known = SeenVersions { config: *self.last_read.lock(), keys: None };
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            self.check(&mut known).await;
        }
    }

    /// Reads files again that have changed since the last check, or that could not be read then.
    async fn check(&self, known: &mut SeenVersions) {
        let Some((config, keys)) = self.versions().await else { return };
        let is_missing = config == Some(FileVersion::default()) && config == known.config;
        if let Some(path) = self.config.file.as_ref().filter(|_| is_missing) {
            self.unread.store(true, Relaxed);
            self.refuse_unread(path, "does not exist, or can't be accessed");
        }
        // A file that differs between two checks is still being written.
        let has_changed = config == known.config && config != *self.last_read.lock();
        if (has_changed || self.unread.load(Relaxed)) && config.is_some_and(FileVersion::exists) {
            self.reload_policies().await;
        }
        known.config = config;
        let have_changed = known.keys.replace(keys.clone()).is_some_and(|before| before != keys);
        if have_changed || self.keys_unread.load(Relaxed) {
            self.reload_certificates().await;
        }
    }

    /// Reads all files again.
    pub(crate) async fn reload(&self) {
        // An operator requested this reload, so an error is logged again.
        self.unread.store(false, Relaxed);
        self.reload_policies().await;
        self.reload_certificates().await;
    }

    /// Returns the current versions of the files; `None`, after a report, if they can't be read.
    async fn versions(&self) -> Option<(Option<FileVersion>, Vec<FileVersion>)> {
        let file = self.config.file.clone();
        let certificates = self.certificates.clone();
        let read = move || {
            let keys = certificates.iter().flat_map(|certificates| certificates.files()).map(FileVersion::of).collect();
            (file.as_deref().map(FileVersion::of), keys)
        };
        let versions = self.reader.read(read).await;
        if let (Err(error), Some(path)) = (&versions, &self.config.file) {
            self.unread.store(true, Relaxed);
            self.refuse_unread(path, error);
        }
        versions.ok()
    }

    /// Reports that the configuration file can't be read, unless that is known.
    fn refuse_unread(&self, path: &Path, error: &str) {
        let (error, cure) = (format!("{}: {error}", path.display()), "find out why the file system does not answer");
        self.refuse(CONFIGURATION_REFUSED, &error, cure, "configuration can't be read: the policies stay active");
    }

    /// Records and logs that a file was refused, unless that is known.
    fn refuse(&self, cause: &'static str, error: &str, cure: &str, message: &str) {
        if self.service.refuse_file(cause, error, cure) {
            tracing::error!(cause, error, cure, "{message}");
        }
    }

    async fn reload_policies(&self) {
        let Some(path) = &self.config.file else {
            tracing::warn!("nothing to reload: the service was started without a file");
            return;
        };
        let _guard = self.reloading.lock().await;
        let (file, sources) = (path.clone(), self.sources.clone());
        let load = move || (FileVersion::of(&file), Config::load(Some(&file), &sources));
        let read = self.reader.read(load).await.map(|(version, read)| {
            *self.last_read.lock() = Some(version);
            read
        });
        let read = read.unwrap_or_else(|message| {
            let origin = path.display().to_string();
            Err(ConfigError { unreadable: true, ..ConfigError::new(origin, message) })
        });
        let is_unread = read.as_ref().is_err_and(|error| error.unreadable);
        if self.unread.swap(is_unread, Relaxed) && is_unread {
            // That is reported already, and the file is read again at each check.
            return;
        }
        match self.service.activate(read) {
            Ok(config) => {
                let policies = self.service.active_policies().policies.len();
                tracing::info!(file = %path.display(), policies, "policies reloaded");
                // This setting takes effect at each reload.
                let server = ServerSettings { allow_removal: self.config.server.allow_removal, ..config.server };
                if server != self.config.server || config.store != self.config.store {
                    tracing::warn!(
                        "[server] or [store] has changed: restart the service to apply that; only policies were reloaded"
                    );
                }
            }
            Err(error) => {
                let cure = self.service.cure(CONFIGURATION_REFUSED);
                tracing::error!(
                    cause = CONFIGURATION_REFUSED, %error, cure,
                    "configuration refused: the previous policies stay active"
                );
            }
        }
    }

    async fn reload_certificates(&self) {
        let Some(certificates) = self.certificates.clone() else { return };
        let files = Arc::clone(&certificates);
        // It is activated here, so that a read that timed out changes nothing when it ends.
        let read = self.reader.read(move || files.read()).await;
        let read = read.unwrap_or_else(|message| Err(FileError { message: message.to_owned(), unreadable: true }));
        self.keys_unread.store(read.as_ref().is_err_and(|error| error.unreadable), Relaxed);
        match read.map_err(|error| error.message) {
            Ok(certificate) => {
                certificates.activate(certificate);
                self.service.accept_file(CERTIFICATE_REFUSED);
                tracing::info!("certificate reloaded");
            }
            Err(error) => {
                let cure = "replace the files of tls_cert and tls_key, or correct them";
                self.refuse(CERTIFICATE_REFUSED, &error, cure, "certificate refused: the previous one stays active");
            }
        }
    }
}

/// The versions of the files at the last check.
struct SeenVersions {
    config: Option<FileVersion>,
    /// Of the certificate and its key.
    keys: Option<Vec<FileVersion>>,
}

/// Reads files, one at a time, with a timeout.
#[derive(Debug, Default)]
struct Reader {
    /// A read that timed out and may still run.
    hanging: Mutex<Option<JoinHandle<()>>>,
}

impl Reader {
    /// Runs a read on another thread. Returns an error if it takes too long.
    async fn read<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, &'static str> {
        let mut hanging = self.hanging.lock().await;
        if is_running(hanging.as_ref()) {
            return Err("can't be read: an earlier read has not ended");
        }
        let (done, answer) = oneshot::channel();
        let read = spawn_blocking(move || {
            let _ = done.send(work());
        });
        match timeout(READ_TIMEOUT, answer).await {
            Ok(answer) => answer.map_err(|_| "can't be read: the reader failed"),
            Err(_) => {
                *hanging = Some(read);
                Err("can't be read: it takes too long")
            }
        }
    }
}

fn is_running(read: Option<&JoinHandle<()>>) -> bool {
    read.is_some_and(|read| !read.is_finished())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        path::Path,
        sync::{Arc, mpsc},
    };

    use tokio::task::spawn_blocking;

    use super::{FileWatcher, SeenVersions, is_running};
    use crate::{
        config::{Config, FileVersion, SettingSources},
        service::Service,
    };

    const POLICY: &str = "[policies.api]\nlimits = [\"5/1s\"]\n";

    /// Returns the watcher of a service that was started with a file, and the versions at the last check.
    fn watched(path: &Path) -> (FileWatcher, SeenVersions) {
        let load = || Config::load(Some(path), &SettingSources::default()).expect("nothing is wrong with it");
        let service = Arc::new(Service::new(load()).expect("a service"));
        let config = load();
        let known = SeenVersions { config: Some(config.version), keys: None };
        (FileWatcher::new(service, None, config, SettingSources::default()), known)
    }

    fn causes(watched: &FileWatcher) -> Vec<String> {
        watched.service.check_degraded_states().into_iter().map(|state| state.cause.into_owned()).collect()
    }

    #[tokio::test]
    async fn a_file_whose_read_timed_out_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tidegate.toml");
        fs::write(&path, POLICY).expect("it is written");
        let (watched, mut known) = watched(&path);

        // This read hangs, as on a file system that does not answer.
        let (answer, blocked) = mpsc::channel::<()>();
        *watched.reader.hanging.lock().await = Some(spawn_blocking(move || {
            let _ = blocked.recv();
        }));
        watched.check(&mut known).await;
        watched.reload().await;
        assert_eq!(causes(&watched), ["configuration_refused"]);

        drop(answer);
        while is_running(watched.reader.hanging.lock().await.as_ref()) {
            tokio::task::yield_now().await;
        }
        watched.check(&mut known).await;
        assert_eq!(causes(&watched), Vec::<String>::new(), "the file was read");
    }

    #[tokio::test]
    async fn a_missing_file_is_reported_until_it_exists_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, away) = (folder.path().join("tidegate.toml"), folder.path().join("away"));
        fs::write(&path, POLICY).expect("it is written");
        let (watched, mut known) = watched(&path);
        fs::rename(&path, &away).expect("it is moved");
        watched.check(&mut known).await;
        assert_eq!(causes(&watched), Vec::<String>::new(), "it may be replaced at this moment");
        watched.check(&mut known).await;
        assert_eq!(causes(&watched), ["configuration_refused"]);
        watched.reload().await;
        watched.check(&mut known).await;
        assert_eq!(causes(&watched), ["configuration_refused"]);
        fs::rename(&away, &path).expect("it is moved back");
        watched.check(&mut known).await;
        assert_eq!(causes(&watched), Vec::<String>::new());
    }

    #[test]
    fn a_file_with_the_same_size_and_time_is_another_version() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("tidegate.toml"), folder.path().join("other"));
        fs::write(&path, "[policies.api]\nlimits = [\"60/1m\"]\n").expect("it is written");
        let before = FileVersion::of(&path);
        let modified = fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("it has a time");
        fs::write(&other, "[policies.api]\nlimits = [\"50/1m\"]\n").expect("it is written");
        File::options().write(true).open(&other).and_then(|file| file.set_modified(modified)).expect("it is set");
        fs::rename(&other, &path).expect("it is moved");
        assert_ne!(FileVersion::of(&path), before);
    }
}
