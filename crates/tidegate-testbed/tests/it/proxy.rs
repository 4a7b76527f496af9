use std::time::Duration;

use tidegate_testbed::{Proxy, Server, Wire};

#[test]
fn a_proxy_forwards_bytes_with_and_without_a_delay() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut wire = Wire::try_connect(proxy.url().trim_start_matches("redis://")).unwrap();
    wire.command(["SET", "a", "b"]).expect_ok();
    proxy.set_delay(Duration::from_millis(30));
    // The second command is sent before the first reply arrives. Both replies arrive in order.
    wire.send(["GET", "a"]);
    wire.send(["GET", "nothing"]);
    assert_eq!(wire.read().bulk(), Some(b"b".as_slice()));
    assert_eq!(wire.read().bulk(), None);
    proxy.set_delay(Duration::ZERO);
    assert_eq!(wire.command(["GET", "a"]).bulk(), Some(b"b".as_slice()));
}
