//! The certificates that a command trusts: those of the system, and those of `--ca`.

use std::path::Path;

use anyhow::{Context as _, ensure};
use ureq::tls::{Certificate, PemItem, parse_pem};

/// Returns the certificates of the system and of a PEM file.
pub(super) fn trusted(ca: Option<&Path>) -> anyhow::Result<Vec<Certificate<'static>>> {
    let mut trusted = match ca {
        Some(file) => from_file(file)?,
        None => Vec::new(),
    };
    let system = rustls_native_certs::load_native_certs();
    trusted.extend(system.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()));
    ensure!(!trusted.is_empty(), "this system has no certificates of CAs: name a file with them with --ca FILE");
    Ok(trusted)
}

/// Reads all certificates of a PEM file.
fn from_file(file: &Path) -> anyhow::Result<Vec<Certificate<'static>>> {
    let name = file.display();
    let pem = std::fs::read(file).with_context(|| format!("--ca: {name} can't be read"))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.with_context(|| format!("--ca: {name} is not valid PEM"))? {
            // A certificate that is not valid DER would be ignored silently later.
            let der = certificate.der().into();
            rustls::RootCertStore::empty()
                .add(der)
                .with_context(|| format!("--ca: certificate {} of {name} can't be parsed", certificates.len() + 1))?;
            certificates.push(certificate);
        }
    }
    ensure!(
        !certificates.is_empty(),
        "--ca: {name} has no certificate: write certificates in PEM, each after a line `-----BEGIN CERTIFICATE-----`"
    );
    Ok(certificates)
}
