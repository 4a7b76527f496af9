//! A certificate authority for tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

/// The files of the certificates and of the server's key.
pub(crate) struct Certificates {
    pub(crate) ca: PathBuf,
    pub(crate) server: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    /// Creates an authority and a certificate for 127.0.0.1 and localhost.
    pub(crate) fn create(dir: &Path) -> Self {
        Self::try_create(dir).unwrap_or_else(|error| panic!("cannot create certificates: {error}"))
    }

    fn try_create(dir: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        authority.distinguished_name.push(DnType::CommonName, "tidegate testbed authority");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let key = KeyPair::generate()?;
        let mut server = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        server.distinguished_name.push(DnType::CommonName, "tidegate testbed server");
        server.use_authority_key_identifier_extension = true;
        let server = server.signed_by(&key, &authority)?;

        let files = Self { ca: dir.join("ca.pem"), server: dir.join("server.pem"), key: dir.join("server.key") };
        fs::write(&files.ca, authority.pem())?;
        fs::write(&files.server, server.pem())?;
        fs::write(&files.key, key.serialize_pem())?;
        Ok(files)
    }
}
