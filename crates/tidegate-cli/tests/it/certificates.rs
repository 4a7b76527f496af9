//! Certificates from a private CA, made with openssl.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::process::{Serving, file, folder};

/// A CA, and the folder with its certificate and with those that it signs.
pub(crate) struct PrivateCa {
    folder: PathBuf,
}

impl PrivateCa {
    pub(crate) fn new(name: &str) -> Self {
        let ca = Self { folder: folder(name) };
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let ca_files = ["-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=A private CA"];
        ca.openssl(&[&["req", "-x509"][..], &key, &ca_files].concat());
        ca
    }

    /// Makes a certificate for a host. Its files are `NAME.pem` and `NAME.key`.
    pub(crate) fn certify(&self, name: &str, subject_alt_name: &str) {
        let [key, request, certificate, extensions] =
            ["key", "csr", "pem", "ext"].map(|extension| format!("{name}.{extension}"));
        let text = format!("basicConstraints=CA:FALSE\nsubjectAltName={subject_alt_name}\n");
        fs::write(self.folder.join(&extensions), text).expect("a writable folder");
        let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", &key];
        self.openssl(&[&["req", "-new", "-subj", "/CN=a service", "-out", &request][..], &new_key].concat());
        let signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", &extensions];
        self.openssl(&[&["x509", "-req", "-in", &request, "-out", &certificate][..], &signed].concat());
    }

    fn openssl(&self, arguments: &[&str]) {
        let made = Command::new("openssl").args(arguments).current_dir(&self.folder).output();
        let made = made.expect("openssl is installed by scripts/peers");
        assert!(made.status.success(), "{made:?}");
    }

    /// Returns the path of a file of the CA.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Starts a service with the certificate of this name.
    pub(crate) fn serve(&self, name: &str) -> Serving {
        let (certificate, key) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        let config = format!(
            "[server]\ntls_cert = \"{certificate}\"\ntls_key = \"{key}\"\n[policies.api]\nlimits = [\"1000/1h\"]\n"
        );
        let unique = Path::new(&self.folder).file_name().expect("a name").to_string_lossy().into_owned();
        let path = file(&format!("{unique}-{name}"), &config);
        Serving::start(&["--config", path.to_str().expect("text")])
    }
}

impl Drop for PrivateCa {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
