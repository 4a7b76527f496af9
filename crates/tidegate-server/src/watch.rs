//! [`Watched`]: the files that a service was told by, read again when they change or when SIGHUP asks for it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    certificates::Certificates,
    config::{FileVersion, Overrides, ServerSettings, StoreSettings},
    service::Service,
};

/// How often files are looked at. Looking works on every file system and through the links that orchestrators swap; being
/// told of changes does not.
const EVERY: Duration = Duration::from_secs(1);

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
        Self { service, certificates, file, overrides, server, store }
    }

    /// Reads again what has changed, until the service stops.
    pub(crate) async fn changes(self: Arc<Self>, stop: CancellationToken) {
        let mut config = self.file.as_ref().map(|(_, version)| *version);
        let (mut seen, mut keys) = (config, self.key_versions());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            let now = self.file.as_ref().map(|(path, _)| FileVersion::of(path));
            // The same twice: a file that changes, or is gone for a moment, is still being written.
            if now == seen && now != config && now.is_some_and(FileVersion::exists) {
                config = now;
                self.reload_policies();
            }
            seen = now;
            let now = self.key_versions();
            if now != keys {
                keys = now;
                self.reload_certificates();
            }
        }
    }

    /// Reads everything again.
    pub(crate) fn reload(&self) {
        self.reload_policies();
        self.reload_certificates();
    }

    fn key_versions(&self) -> Vec<FileVersion> {
        self.certificates.iter().flat_map(|certificates| certificates.files()).map(FileVersion::of).collect()
    }

    fn reload_policies(&self) {
        let Some((path, _)) = &self.file else {
            tracing::warn!("nothing to reload: the service was started without a file");
            return;
        };
        match self.service.reload(path, &self.overrides) {
            Ok(config) => {
                let policies = self.service.live().policies.len();
                tracing::info!(file = %path.display(), policies, "policies reloaded");
                if config.server != self.server || config.store != self.store {
                    tracing::warn!(
                        "[server] or [store] has changed: that takes a restart, only policies were reloaded"
                    );
                }
            }
            Err(error) => tracing::error!(%error, "configuration refused: the policies from before stay in force"),
        }
    }

    fn reload_certificates(&self) {
        let Some(certificates) = &self.certificates else { return };
        match certificates.reload() {
            Ok(()) => tracing::info!("certificate reloaded"),
            Err(error) => tracing::error!(error, "certificate refused: the one from before stays in force"),
        }
    }
}
