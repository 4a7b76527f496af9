//! [`Certificates`]: the certificate of the service, replaced when its files change.

use std::{fs::File, path::Path, sync::Arc};

use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use crate::{
    config::{FileError, Tls, ensure_regular},
    metrics::Transport,
};

/// The current certificate chain and its key.
#[derive(Debug)]
pub(crate) struct Certificates {
    files: Tls,
    current: ArcSwap<CertifiedKey>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl Certificates {
    /// Reads the files.
    pub(crate) fn load(files: &Tls) -> Result<Self, String> {
        let certificate = read(files).map_err(|error| error.message)?;
        Ok(Self { files: files.clone(), current: ArcSwap::from_pointee(certificate) })
    }

    /// Reads the files again, without using them.
    pub(crate) fn read(&self) -> Result<CertifiedKey, FileError> {
        read(&self.files)
    }

    /// Uses a certificate for new connections.
    pub(crate) fn activate(&self, certificate: CertifiedKey) {
        self.current.store(Arc::new(certificate));
    }

    /// Returns the files to watch.
    pub(crate) fn files(&self) -> [&Path; 2] {
        [&self.files.cert, &self.files.key]
    }

    /// Returns the TLS configuration of one transport.
    pub(crate) fn server_config(self: &Arc<Self>, transport: Transport) -> Arc<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("ring knows the default versions");
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::<Self>::clone(self));
        config.alpn_protocols = match transport {
            Transport::Http => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Transport::Grpc => vec![b"h2".to_vec()],
            Transport::Resp => Vec::new(),
        };
        Arc::new(config)
    }
}

fn read(files: &Tls) -> Result<CertifiedKey, FileError> {
    for path in [&files.cert, &files.key] {
        let opened =
            ensure_regular(path).and_then(|()| File::open(path).map_err(|error| FileError::unreadable(&error)));
        opened.map_err(|error| FileError { message: format!("{}: {}", path.display(), error.message), ..error })?;
    }
    parse(files).map_err(|message| FileError { message, unreadable: false })
}

fn parse(files: &Tls) -> Result<CertifiedKey, String> {
    let cert = files.cert.display();
    let chain = CertificateDer::pem_file_iter(&files.cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| format!("{cert}: no certificates in PEM: {error}"))?;
    if chain.is_empty() {
        return Err(format!("{cert}: no certificates in PEM"));
    }
    let key = files.key.display();
    let private = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| format!("{key}: no key in PEM: {error}"))?;
    let signing = ring::sign::any_supported_type(&private).map_err(|error| format!("{key}: {error}"))?;
    let certified = CertifiedKey::new(chain, signing);
    certified.keys_match().map_err(|error| format!("{key}: does not belong to {cert}: {error}"))?;
    Ok(certified)
}
