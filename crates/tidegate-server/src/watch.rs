//! [`Watched`]: the files that a service was started with, read again when they change or when SIGHUP asks for it.
//!
//! Files are read on threads for blocking work, one read at a time and within a time-out: a file system that hangs keeps one such
//! thread and nothing else.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, oneshot},
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    certificates::Certificates,
    config::{Config, ConfigError, FileVersion, Overrides, ServerSettings, StoreSettings},
    service::{CERTIFICATE_REFUSED, CONFIGURATION_REFUSED, RefusedFile, Service},
};

/// How often files are looked at. Looking works on every file system and through the links that orchestrators swap; being
/// told of changes does not.
const EVERY: Duration = Duration::from_secs(1);

/// How long reading a file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The files of a service.
#[derive(Debug)]
pub(crate) struct Watched {
    service: Arc<Service>,
    certificates: Option<Arc<Certificates>>,
    /// The configuration's file, and the version of it that was read at the start.
    file: Option<(PathBuf, FileVersion)>,
    overrides: Overrides,
    server: ServerSettings,
    store: StoreSettings,
    reader: Reader,
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
        let (reader, reloading) = (Reader::default(), Mutex::default());
        Self { service, certificates, file, overrides, server, store, reader, reloading }
    }

    /// Reads again what has changed, until the service stops.
    pub(crate) async fn changes(self: Arc<Self>, stop: CancellationToken) {
        let mut config = self.file.as_ref().map(|(_, version)| *version);
        let (mut seen, mut keys) = (config, None);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            let Some((now, keys_now)) = self.versions().await else { continue };
            // The same twice: a file that changes, or is gone for a moment, is still being written.
            if now == seen && now != config && now.is_some_and(FileVersion::exists) {
                config = now;
                self.reload_policies().await;
            }
            seen = now;
            if keys.replace(keys_now.clone()).is_some_and(|before| before != keys_now) {
                self.reload_certificates().await;
            }
        }
    }

    /// Reads everything again.
    pub(crate) async fn reload(&self) {
        self.reload_policies().await;
        self.reload_certificates().await;
    }

    /// The versions that the files have now; none if that can't be found out, which is reported.
    async fn versions(&self) -> Option<(Option<FileVersion>, Vec<FileVersion>)> {
        let file = self.file.as_ref().map(|(path, _)| path.clone());
        let certificates = self.certificates.clone();
        let look = move || {
            let keys = certificates.iter().flat_map(|certificates| certificates.files()).map(FileVersion::of).collect();
            (file.as_deref().map(FileVersion::of), keys)
        };
        let looked = self.reader.read(look).await;
        if let (Err(error), Some((path, _))) = (&looked, &self.file) {
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
        let Some((path, _)) = &self.file else {
            tracing::warn!("nothing to reload: the service was started without a file");
            return;
        };
        let _alone = self.reloading.lock().await;
        let (file, overrides) = (path.clone(), self.overrides.clone());
        let read = self.reader.read(move || Config::load(Some(&file), &overrides)).await;
        let read = read.unwrap_or_else(|message| {
            Err(ConfigError { origin: path.display().to_string(), line: None, message: message.to_owned() })
        });
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
        let read = self.reader.read(move || certificates.reload()).await;
        match read.unwrap_or_else(|message| Err(message.to_owned())) {
            Ok(()) => {
                self.service.file_refused(CERTIFICATE_REFUSED, None);
                tracing::info!("certificate reloaded");
            }
            Err(error) => {
                let cure = "replace the files of tls_cert and tls_key, or correct them";
                let refused = RefusedFile { error: error.clone(), cure };
                self.service.file_refused(CERTIFICATE_REFUSED, Some(refused));
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
        if hangs.as_ref().is_some_and(|read| !read.is_finished()) {
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
