//! Configured tokens are required.

use super::{
    client::{Client, Reply},
    service, service_with,
};

const TOKENS: &str = "token = \"usage-token\"\nadmin_token = \"admin-token\"";
const DENIED: &str = "NOAUTH Authentication required.";

fn ok() -> Reply {
    Reply::Simple("OK".to_owned())
}

#[test]
fn without_a_token_only_ping_works() {
    let service = service_with(TOKENS);
    let mut client = Client::connect(service.resp);
    for words in ["TG.CHECK api k", "CL.THROTTLE k 1 1 1", "TG.RESET api k", "INFO", "CLIENT ID", "ECHO x", "SELECT 0"]
    {
        assert_eq!(client.call(words).error(), DENIED, "{words}");
    }
    assert_eq!(client.call("PING"), Reply::Simple("PONG".to_owned()));
    assert!(client.call("HELLO 3").error().starts_with("NOAUTH HELLO must be called"));
    assert!(client.call("AUTH wrong").error().starts_with("WRONGPASS "));
    assert!(client.call("HELLO 3 AUTH default wrong").error().starts_with("WRONGPASS "));
    assert_eq!(client.call("TG.CHECK api k").error(), DENIED);
    assert_eq!(client.call("QUIT"), ok());
    client.expect_end();
}

#[test]
fn the_usage_token_permits_decisions_only() {
    let service = service_with(TOKENS);
    let mut client = Client::connect(service.resp);
    assert_eq!(client.call("AUTH usage-token"), ok());
    for words in ["TG.CHECK api k", "TG.PEEK api k", "TG.CHARGE api k 1", "TG.LIMIT k 5/1s", "TG.CHECKALL api k 1"] {
        assert_eq!(client.call(words).numbers()[0], 1, "{words}");
    }
    assert_eq!(client.call("CL.THROTTLE k 1 1 1").numbers()[0], 0);
    for words in ["TG.REFUND api k 1 1", "TG.RESET api k", "TG.INSPECT api k"] {
        assert!(client.call(words).error().starts_with("NOPERM TG."), "{words}");
    }
    assert_eq!(client.call("AUTH anybody admin-token"), ok());
    assert_eq!(client.call("TG.RESET api k"), Reply::Int(1));
    assert!(client.call("AUTH wrong").error().starts_with("WRONGPASS "));
    assert_eq!(client.call("TG.RESET api k"), Reply::Int(0), "a wrong token keeps the permissions");
    assert_eq!(client.call("RESET"), Reply::Simple("RESET".to_owned()));
    assert_eq!(client.call("TG.CHECK api k").error(), DENIED, "a reset removes the permissions");
}

#[test]
fn hello_accepts_a_token() {
    let service = service_with(TOKENS);
    let mut client = Client::connect(service.resp);
    client.resp3 = true;
    assert_eq!(client.call("HELLO 3 AUTH default admin-token SETNAME worker").field("proto"), Reply::Int(3));
    assert_eq!(client.call("CLIENT GETNAME"), Reply::bulk("worker"));
    assert_eq!(client.call("TG.RESET api k"), Reply::Int(0));
}

#[test]
fn decisions_need_no_token_if_only_an_admin_token_is_configured() {
    let service = service_with("admin_token = \"admin-token\"");
    let mut client = Client::connect(service.resp);
    assert_eq!(client.call("TG.CHECK api k").numbers()[0], 1);
    assert!(client.call("TG.RESET api k").error().starts_with("NOPERM "));
    assert_eq!(client.call("AUTH admin-token"), ok());
    assert_eq!(client.call("TG.RESET api k"), Reply::Int(1));
}

#[test]
fn auth_without_a_configured_token_is_an_error() {
    let service = service();
    let mut client = Client::connect(service.resp);
    assert!(
        client.call("AUTH anything").error().starts_with("ERR AUTH <password> called without any password configured")
    );
}

#[test]
fn session_commands_apply_to_later_commands_of_the_same_write() {
    let service = service_with(TOKENS);
    let mut client = Client::connect(service.resp);
    client.send(b"TG.CHECK api k\r\nAUTH usage-token\r\nTG.CHECK api k\r\nRESET\r\nTG.CHECK api k\r\n");
    assert_eq!(client.read().error(), DENIED);
    assert_eq!(client.read(), ok());
    assert_eq!(client.read().numbers()[2], 2);
    assert_eq!(client.read(), Reply::Simple("RESET".to_owned()));
    assert_eq!(client.read().error(), DENIED);
}

#[test]
fn a_connection_without_a_token_is_closed_and_one_with_a_token_stays() {
    let service = service_with(&format!("{TOKENS}\nheader_timeout = \"200ms\""));
    let mut known = Client::connect(service.resp);
    assert_eq!(known.call("AUTH usage-token"), ok());
    let mut stranger = Client::connect(service.resp);
    stranger.expect_end();
    assert_eq!(known.call("TG.CHECK api k").numbers()[0], 1);
    assert_eq!(known.call("RESET"), Reply::Simple("RESET".to_owned()));
    known.expect_end();
}
