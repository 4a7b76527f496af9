//! Commands that query a service with TLS, and the messages when no connection is possible.

use std::{fs, net::TcpListener, process::Command};

use tidegate_testbed::{Server, free_port};

use crate::{
    certificates::PrivateCa,
    process::{BINARY, Serving, exit_and_output, file},
};

/// The URL of a service at its port.
fn url(scheme: &str, host: &str, serving: &Serving) -> String {
    let port = serving.http.rsplit(':').next().expect("a port");
    format!("{scheme}://{host}:{port}")
}

#[test]
fn every_command_that_queries_a_service_accepts_a_private_ca() {
    let ca = PrivateCa::new("ca");
    ca.certify("server", "DNS:localhost");
    let serving = ca.serve("server");
    let (server, ca_file) = (url("https", "localhost", &serving), ca.path("ca.pem"));
    let commands: [&[&str]; 11] = [
        &["check", "alice", "--policy", "api"],
        &["peek", "alice", "--policy", "api"],
        &["charge", "alice", "--policy", "api"],
        &["refund", "alice", "--policy", "api", "--charged-at-us", "1"],
        &["inspect", "alice", "--policy", "api"],
        &["reset", "alice", "--policy", "api"],
        &["override", "set", "alice", "--policy", "api", "--exempt", "--permanent"],
        &["override", "list"],
        &["override", "lift", "alice", "--policy", "api"],
        &["top", "--once"],
        &["top", "--format", "json"],
    ];
    for command in commands {
        let call = |more: &[&str]| exit_and_output(&[command, &["--server", &server], more].concat());
        let (code, output) = call(&["--ca", &ca_file]);
        assert_eq!(code, Some(0), "{command:?}: {output}");
        let (code, output) = call(&[]);
        assert!(code == Some(4) && output.contains("is not trusted") && output.contains("--ca FILE"), "{output}");
        assert!(!output.contains("tidegate serve"), "{output}");
    }
}

#[test]
fn the_certificates_of_the_system_and_a_variable_are_used() {
    let ca = PrivateCa::new("system");
    ca.certify("server", "DNS:localhost");
    let serving = ca.serve("server");
    let server = url("https", "localhost", &serving);
    // The library that finds the certificates of the system reads SSL_CERT_FILE, as OpenSSL does.
    for variable in ["SSL_CERT_FILE", "TIDEGATE_CA"] {
        let mut check = Command::new(BINARY);
        check.args(["check", "alice", "--policy", "api", "--server", &server]).env(variable, ca.path("ca.pem"));
        let output = check.current_dir(std::env::temp_dir()).output().expect("the binary runs");
        assert!(output.status.success(), "{variable}: {output:?}");
    }
    let bundle = [fs::read(ca.path("ca.pem")), fs::read(PrivateCa::new("other").path("ca.pem"))];
    let bundle = bundle.map(|pem| pem.expect("a certificate"));
    fs::write(ca.path("first.pem"), bundle.concat()).expect("a writable folder");
    fs::write(ca.path("last.pem"), [&bundle[1][..], &bundle[0]].concat()).expect("a writable folder");
    for several in ["first.pem", "last.pem"] {
        let file = ca.path(several);
        let (code, output) = exit_and_output(&["peek", "a", "--policy", "api", "--server", &server, "--ca", &file]);
        assert_eq!(code, Some(0), "a file may have several certificates: {output}");
    }
}

#[test]
fn a_wrong_ca_file_is_refused_with_its_name() {
    let ca = PrivateCa::new("wrong");
    let files = [
        ("empty.pem", "", "has no certificate: write certificates in PEM"),
        ("text.pem", "trust everybody\n", "has no certificate: write certificates in PEM"),
        ("cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n", "is not valid PEM"),
        ("junk.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1 of"),
        ("ca.key", "", "has no certificate"),
    ];
    for (name, text, expected) in files {
        if name != "ca.key" {
            fs::write(ca.path(name), text).expect("a writable folder");
        }
        let file = ca.path(name);
        let command = ["check", "a", "--policy", "api", "--server", "https://localhost:1", "--ca", &file];
        let (code, output) = exit_and_output(&command);
        assert!(code == Some(2) && output.contains(expected) && output.contains(name), "{name}: {code:?} {output}");
    }
    let missing = ca.path("missing.pem");
    let (code, output) = exit_and_output(&["top", "--once", "--server", "https://localhost:1", "--ca", &missing]);
    assert!(code == Some(2) && output.contains("missing.pem can't be read: No such file"), "{code:?} {output}");
}

#[test]
fn a_failed_connection_is_explained() {
    let ca = PrivateCa::new("explained");
    ca.certify("named", "DNS:limits.internal");
    let (named, plain) = (ca.serve("named"), Serving::start(&[]));
    // Connections are accepted by the system, but nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let silent = format!("http://{}", silent.local_addr().expect("an address"));
    let resp = format!("http://{}", plain.resp);
    let closed = format!("http://127.0.0.1:{}", free_port());
    let cases = [
        (&*closed, "nothing listens at http://127.0.0.1:", "start a service with `tidegate serve`"),
        (&url("https", "localhost", &named), "is not valid for `localhost`, but for", "limits.internal"),
        (&url("http", "127.0.0.1", &named), "does not answer in HTTP", "write https://127.0.0.1:"),
        (&url("https", "127.0.0.1", &plain), "does not use TLS", "write http://127.0.0.1:"),
        (&silent, "did not answer in time", "--timeout"),
        (&resp, "does not answer in HTTP", "the address of its HTTP listener"),
    ];
    for (server, expected, hint) in cases {
        let ca_file = ca.path("ca.pem");
        let timeout = if server == silent { "50ms" } else { "60s" };
        let options = ["--server", server, "--ca", &ca_file, "--timeout", timeout];
        for command in [&["check", "a", "--limit", "5/1s"][..], &["top", "--once"]] {
            let (code, output) = exit_and_output(&[command, &options].concat());
            assert!(
                code == Some(4) && output.contains(expected) && output.contains(hint),
                "{server}: {code:?} {output}"
            );
            assert_eq!(output.contains("tidegate serve"), server == closed, "{output}");
        }
    }
}

#[test]
fn a_certificate_of_a_ca_as_that_of_a_service_is_explained() {
    let ca = PrivateCa::new("as-server");
    let serving = ca.serve("ca");
    let server = url("https", "localhost", &serving);
    let (code, output) = exit_and_output(&["top", "--once", "--server", &server, "--ca", &ca.path("ca.pem")]);
    assert!(code == Some(4) && output.contains("with CA:FALSE"), "{code:?} {output}");
}

#[test]
fn commands_that_use_a_redis_with_tls_trust_the_ca_of_the_command_line() {
    let redis = Server::builder().tls().start();
    let (url, ca) = (redis.url(), redis.ca_pem().display().to_string());
    let check = ["check", "alice", "--limit", "5/1m", "--store", &url];
    let (code, output) = exit_and_output(&[&check[..], &["--ca", &ca]].concat());
    assert_eq!(code, Some(0), "{output}");
    let (code, output) = exit_and_output(&check);
    assert_ne!(code, Some(0), "no CA is trusted that nobody named: {output}");

    let trace = file("tls-trace.csv", "time_us,key,cost\n1000000,alice,1\n1200000,alice,1\n");
    let trace = trace.display().to_string();
    let (code, output) = exit_and_output(&["replay", &trace, "--limit", "1/1s", "--store", &url, "--ca", &ca]);
    assert_eq!(code, Some(0), "{output}");
}
