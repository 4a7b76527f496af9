//! TLS on every listener, with certificates that are replaced at run time.

use std::{path::Path, process::Command};

use crate::running::Running;

/// Creates a certificate for `localhost` with openssl.
fn certificate(folder: &Path, serial: u32) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-set_serial", &serial.to_string(), "-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder)
        .output()
        .expect("openssl is installed by scripts/peers");
    assert!(made.status.success(), "{made:?}");
}

/// Returns the serial number of the certificate of a listener.
fn served_serial(port: u16) -> String {
    let shell =
        format!("openssl s_client -connect 127.0.0.1:{port} </dev/null 2>/dev/null | openssl x509 -noout -serial");
    let output = Command::new("sh").args(["-c", &shell]).output().expect("openssl is installed");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn every_listener_uses_tls_and_reloads_its_certificate() {
    let folder = std::env::temp_dir().join(format!("tidegate-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable directory");
    certificate(&folder, 0x11);
    let path = |name: &str| folder.join(name).display().to_string();
    let config = format!("[server]\ntls_cert = \"{}\"\ntls_key = \"{}\"\n", path("cert.pem"), path("key.pem"));
    let running = Running::start(&config);
    for port in [running.http, running.resp, running.grpc].map(|address| address.port()) {
        assert_eq!(served_serial(port), "serial=11");
    }
    let health = |arguments: &[&str]| {
        let url = format!("https://localhost:{}/healthz", running.http.port());
        let output = Command::new("curl").args(["-s", "--cacert", &path("cert.pem")]).args(arguments).arg(url).output();
        String::from_utf8_lossy(&output.expect("curl is installed by scripts/peers").stdout).into_owned()
    };
    assert_eq!(health(&[]), "ok\n");
    assert_eq!(health(&["--http1.1"]), "ok\n");
    certificate(&folder, 0x22);
    running.reload();
    assert_eq!(served_serial(running.http.port()), "serial=22");
    std::fs::write(folder.join("key.pem"), "no key at all").expect("a writable file");
    running.reload();
    assert_eq!(served_serial(running.http.port()), "serial=22", "the valid certificate stays");
    let _ = std::fs::remove_dir_all(folder);
}
