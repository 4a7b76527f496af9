use std::process::Command;

use tidegate_testbed::{Server, Wire};

#[test]
fn a_tls_server_rejects_plain_connections() {
    let server = Server::builder().tls().start();
    assert!(server.url().starts_with("rediss://"));
    server.wire().command(["SET", "a", "over tls"]).expect_ok();
    assert!(Wire::try_connect(server.addr()).unwrap().try_command(["PING"]).is_err());

    let redis_cli = || {
        let output = Command::new("redis-cli")
            .args(["-p", &server.port().to_string(), "--tls", "--cacert"])
            .arg(server.ca_pem())
            .args(["GET", "a"])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(redis_cli(), "over tls\n");

    server.restart();
    assert_eq!(redis_cli(), "\n");
}
