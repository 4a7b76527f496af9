//! [`Watched`]: the files that a service was started with, read again when they change or when SIGHUP asks for it.
//!
//! Files are read on threads for blocking work, one read at a time and within a time-out: a file system that hangs keeps one such
//! thread and nothing else.

use std::{
    path::PathBuf,
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
    certificates::Certificates,
    config::{Config, ConfigError, FileVersion, Overrides, ServerSettings, StoreSettings, Unusable},
    service::{CERTIFICATE_REFUSED, CONFIGURATION_REFUSED, RefusedFile, Service},
};

/// How often files are looked at. Looking works on every file system and through the links that orchestrators swap; being
/// told of changes does not.
const EVERY: Duration = Duration::from_millis(400);

/// How long reading a file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The files of a service.
#[derive(Debug)]
pub(crate) struct Watched {
    service: Arc<Service>,
    certificates: Option<Arc<Certificates>>,
    /// The configuration's file.
    file: Option<PathBuf>,
    overrides: Overrides,
    server: ServerSettings,
    store: StoreSettings,
    reader: Reader,
    /// Whether the configuration could not be looked at or read, whatever is in it. Then it is read again.
    unread: AtomicBool,
    /// The version of the configuration that was read last, whether it was put in force or refused.
    last_read: parking_lot::Mutex<Option<FileVersion>>,
    /// The same of the certificate.
    keys_unread: AtomicBool,
    /// One reload at a time, so that the file that was read last is the one in force.
    reloading: Mutex<()>,
}

impl Watched {
    pub(crate) fn new(
        service: Arc<Service>,
        certificates: Option<Arc<Certificates>>,
        file: Option<(PathBuf, FileVersion)>,
        overrides: Overrides,
        server: ServerSettings,
        store: StoreSettings,
    ) -> Self {
        Self {
            service,
            certificates,
            last_read: parking_lot::Mutex::new(file.as_ref().map(|(_, version)| *version)),
            file: file.map(|(path, _)| path),
            overrides,
            server,
            store,
            reader: Reader::default(),
            unread: AtomicBool::new(false),
            keys_unread: AtomicBool::new(false),
            reloading: Mutex::default(),
        }
    }

    /// Reads again what has changed, until the service stops.
    pub(crate) async fn changes(self: Arc<Self>, stop: CancellationToken) {
        let mut known = Known::new(*self.last_read.lock());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            self.look(&mut known).await;
        }
    }

    /// Reads again what has changed since the last look, and what could not be read then.
    async fn look(&self, known: &mut Known) {
        let Some((config, keys)) = self.versions().await else { return };
        if let (Some(path), Some(FileVersion::NONE), true) = (&self.file, config, config == known.seen) {
            self.unread.store(true, Relaxed);
            self.refuse_unread(path, "is not there, or can't be looked at");
        }
        // The same twice: a file that changes, or is gone for a moment, is still being written.
        let has_changed = config == known.seen && config != *self.last_read.lock();
        if (has_changed || self.was_unread()) && config.is_some_and(FileVersion::exists) {
            self.reload_policies().await;
        }
        known.seen = config;
        let have_changed = known.keys.replace(keys.clone()).is_some_and(|before| before != keys);
        if have_changed || self.keys_unread.load(Relaxed) {
            self.reload_certificates().await;
        }
    }

    /// Whether the last attempt to look at the configuration or to read it came to nothing.
    fn was_unread(&self) -> bool {
        self.unread.load(Relaxed)
    }

    /// Reads everything again.
    pub(crate) async fn reload(&self) {
        // An operator asked for this reload, so an error is logged again.
        self.unread.store(false, Relaxed);
        self.reload_policies().await;
        self.reload_certificates().await;
    }

    /// The versions that the files have now; none if that can't be found out, which is reported.
    async fn versions(&self) -> Option<(Option<FileVersion>, Vec<FileVersion>)> {
        let file = self.file.clone();
        let certificates = self.certificates.clone();
        let look = move || {
            let keys = certificates.iter().flat_map(|certificates| certificates.files()).map(FileVersion::of).collect();
            (file.as_deref().map(FileVersion::of), keys)
        };
        let looked = self.reader.read(look).await;
        if let (Err(error), Some(path)) = (&looked, &self.file) {
            self.unread.store(true, Relaxed);
            self.refuse_unread(path, error);
        }
        looked.ok()
    }

    /// Reports that the configuration's file can't be looked at, unless that is known.
    fn refuse_unread(&self, path: &std::path::Path, error: &str) {
        let (error, cure) = (format!("{}: {error}", path.display()), "see why the file system does not answer");
        if self.service.file_refused(CONFIGURATION_REFUSED, Some(RefusedFile { error: error.clone(), cure })) {
            tracing::error!(
                cause = CONFIGURATION_REFUSED,
                error,
                cure,
                "configuration can't be read: the policies stay in force"
            );
        }
    }

    async fn reload_policies(&self) {
        let Some(path) = &self.file else {
            tracing::warn!("nothing to reload: the service was started without a file");
            return;
        };
        let _alone = self.reloading.lock().await;
        let (file, overrides) = (path.clone(), self.overrides.clone());
        let load = move || (FileVersion::of(&file), Config::load(Some(&file), &overrides));
        let read = self.reader.read(load).await.map(|(version, read)| {
            *self.last_read.lock() = Some(version);
            read
        });
        let read = read.unwrap_or_else(|message| {
            let origin = path.display().to_string();
            Err(ConfigError { origin, line: None, message: message.to_owned(), unreadable: true })
        });
        let is_unread = read.as_ref().is_err_and(|error| error.unreadable);
        if self.unread.swap(is_unread, Relaxed) && is_unread {
            // That is reported already, and the file is tried again at each look.
            return;
        }
        match self.service.put_in_force(read) {
            Ok(config) => {
                let policies = self.service.live().policies.len();
                tracing::info!(file = %path.display(), policies, "policies reloaded");
                // It is about reloads, and read at each of them.
                let server = ServerSettings { allow_removal: self.server.allow_removal, ..config.server };
                if server != self.server || config.store != self.store {
                    tracing::warn!(
                        "[server] or [store] has changed: that takes a restart, only policies were reloaded"
                    );
                }
            }
            Err(error) => {
                let cure = self.service.cure(CONFIGURATION_REFUSED);
                tracing::error!(
                    cause = CONFIGURATION_REFUSED, %error, cure,
                    "configuration refused: the policies from before stay in force"
                );
            }
        }
    }

    async fn reload_certificates(&self) {
        let Some(certificates) = self.certificates.clone() else { return };
        let files = Arc::clone(&certificates);
        // It is put in force here, so that a read that was given up changes nothing when it comes back.
        let read = self.reader.read(move || files.read()).await;
        let read = read.unwrap_or_else(|message| Err(Unusable { message: message.to_owned(), unreadable: true }));
        self.keys_unread.store(read.as_ref().is_err_and(|error| error.unreadable), Relaxed);
        match read.map_err(|error| error.message) {
            Ok(certificate) => {
                certificates.put_in_force(certificate);
                self.service.file_refused(CERTIFICATE_REFUSED, None);
                tracing::info!("certificate reloaded");
            }
            Err(error) => {
                let cure = "replace the files of tls_cert and tls_key, or correct them";
                let refused = RefusedFile { error: error.clone(), cure };
                if self.service.file_refused(CERTIFICATE_REFUSED, Some(refused)) {
                    tracing::error!(
                        cause = CERTIFICATE_REFUSED,
                        error,
                        cure,
                        "certificate refused: the one from before stays in force"
                    );
                }
            }
        }
    }
}

/// The versions of the files that the last looks found.
struct Known {
    /// The version of the configuration that was seen last.
    seen: Option<FileVersion>,
    /// Those of the certificate and its key.
    keys: Option<Vec<FileVersion>>,
}

impl Known {
    fn new(config: Option<FileVersion>) -> Self {
        Self { seen: config, keys: None }
    }
}

/// Reads files, one at a time, without waiting for those that can't be read.
#[derive(Debug, Default)]
struct Reader {
    /// A read that was given up and may still be under way.
    hangs: Mutex<Option<JoinHandle<()>>>,
}

impl Reader {
    /// Does some reading on another thread. An error says why there is no answer.
    async fn read<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, &'static str> {
        let mut hangs = self.hangs.lock().await;
        if is_under_way(hangs.as_ref()) {
            return Err("can't be read: an earlier read has not come back");
        }
        let (done, answer) = oneshot::channel();
        let read = spawn_blocking(move || {
            let _ = done.send(work());
        });
        match timeout(READ_TIMEOUT, answer).await {
            Ok(answer) => answer.map_err(|_| "can't be read: the reader failed"),
            Err(_) => {
                *hangs = Some(read);
                Err("can't be read: it takes too long")
            }
        }
    }
}

fn is_under_way(read: Option<&JoinHandle<()>>) -> bool {
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

    use super::{Known, Watched, is_under_way};
    use crate::{
        config::{Config, FileVersion, Overrides},
        service::Service,
    };

    const POLICY: &str = "[policies.api]\nlimits = [\"5/1s\"]\n";

    /// A service that was started with a file, and what the last look at the file found.
    fn watched(path: &Path) -> (Watched, Known) {
        let config = Config::load(Some(path), &Overrides::default()).expect("nothing is wrong with it");
        let version = FileVersion::of(path);
        let (server, store) = (config.server.clone(), config.store.clone());
        let service = Arc::new(Service::new(config).expect("a service"));
        let file = Some((path.to_owned(), version));
        let watched = Watched::new(service, None, file, Overrides::default(), server, store);
        (watched, Known::new(Some(version)))
    }

    fn causes(watched: &Watched) -> Vec<&'static str> {
        watched.service.look_for_degraded_states().into_iter().map(|state| state.cause).collect()
    }

    #[tokio::test]
    async fn a_file_that_could_not_be_read_in_time_is_read_again_and_the_state_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tidegate.toml");
        fs::write(&path, POLICY).expect("it is written");
        let (watched, mut known) = watched(&path);

        // A read that hangs, as on a file system that does not answer.
        let (answer, hangs) = mpsc::channel::<()>();
        *watched.reader.hangs.lock().await = Some(spawn_blocking(move || {
            let _ = hangs.recv();
        }));
        watched.look(&mut known).await;
        watched.reload().await;
        assert_eq!(causes(&watched), ["configuration_refused"]);

        drop(answer);
        while is_under_way(watched.reader.hangs.lock().await.as_ref()) {
            tokio::task::yield_now().await;
        }
        watched.look(&mut known).await;
        assert_eq!(causes(&watched), Vec::<&str>::new(), "the file is as it was, and was read");
    }

    #[tokio::test]
    async fn a_file_that_is_gone_is_reported_until_it_is_back_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, away) = (folder.path().join("tidegate.toml"), folder.path().join("away"));
        fs::write(&path, POLICY).expect("it is written");
        let (watched, mut known) = watched(&path);
        fs::rename(&path, &away).expect("it is moved");
        watched.look(&mut known).await;
        assert_eq!(causes(&watched), Vec::<&str>::new(), "it may be replaced at this moment");
        watched.look(&mut known).await;
        assert_eq!(causes(&watched), ["configuration_refused"]);
        watched.reload().await;
        watched.look(&mut known).await;
        assert_eq!(causes(&watched), ["configuration_refused"]);
        fs::rename(&away, &path).expect("it is moved back");
        watched.look(&mut known).await;
        assert_eq!(causes(&watched), Vec::<&str>::new());
    }

    #[test]
    fn a_file_of_the_same_size_and_time_is_another_version() {
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
