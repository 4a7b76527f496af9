//! The commands with which client libraries set up and describe a connection.

use super::{
    client::{Client, Reply},
    service,
};

fn ok() -> Reply {
    Reply::Simple("OK".to_owned())
}

#[test]
fn hello_sets_the_version_of_all_later_replies() {
    let service = service();
    let mut client = Client::connect(service.resp);
    let hello = client.call("HELLO");
    assert_eq!(hello.field("proto"), Reply::Int(2));
    assert_eq!(hello.field("server"), Reply::bulk("tidegate"));
    assert!(matches!(client.call("HELLO 2"), Reply::List(items) if items.len() == 14));
    assert_eq!(client.call("HELLO 4").error(), "NOPROTO unsupported protocol version");
    assert_eq!(client.call("HELLO x").error(), "ERR Protocol version is not an integer or out of range");
    assert_eq!(client.call("HELLO 3 NONSENSE").error(), "ERR Syntax error in HELLO option 'NONSENSE'");
    assert_eq!(client.call("HELLO 3 AUTH x").error(), "ERR Syntax error in HELLO option 'AUTH'");
    client.resp3 = true;
    assert!(matches!(client.call("HELLO 3"), Reply::Map(pairs) if pairs.len() == 7));
    assert_eq!(client.call("CLIENT GETNAME"), Reply::Null);
    assert!(matches!(client.call("TG.CHECK api k FULL"), Reply::Map(_)));
    assert_eq!(client.call("HELLO").field("proto"), Reply::Int(3), "the version stays the same without a number");
    client.send(&super::client::command(["RESET"]));
    client.resp3 = false;
    assert_eq!(client.read(), Reply::Simple("RESET".to_owned()));
    assert!(matches!(client.call("TG.CHECK api k FULL"), Reply::List(_)));
}

#[test]
fn connection_commands_are_answered() {
    let service = service();
    let mut client = Client::connect(service.resp);
    assert_eq!(client.call("PING"), Reply::Simple("PONG".to_owned()));
    assert_eq!(client.call("ping hello"), Reply::bulk("hello"));
    assert!(client.call("PING a b").error().starts_with("ERR wrong number of arguments for 'ping' command"));
    assert_eq!(client.call("ECHO hello"), Reply::bulk("hello"));
    assert_eq!(client.call("SELECT 0"), ok());
    assert_eq!(client.call("QUIT"), ok());
    client.expect_end();
}

#[test]
fn client_commands_set_and_show_the_client() {
    let service = service();
    let mut client = Client::connect(service.resp);
    assert_eq!(client.call("CLIENT GETNAME"), Reply::Null);
    assert_eq!(client.call("CLIENT SETNAME worker-1"), ok());
    assert_eq!(client.call("client getname"), Reply::bulk("worker-1"));
    client.send(&super::client::command(["CLIENT", "SETNAME", "two words"]));
    assert_eq!(client.read().error(), "ERR Client names cannot contain spaces, newlines or special characters.");
    assert_eq!(client.call("CLIENT SETINFO LIB-NAME redis-py"), ok());
    assert_eq!(client.call("CLIENT SETINFO lib-ver 6.1"), ok());
    assert_eq!(client.call("CLIENT SETINFO other x").error(), "ERR Unrecognized option 'other'");
    let info = client.call("CLIENT INFO").text();
    assert!(info.contains("name=worker-1 ") && info.contains("lib-name=redis-py lib-ver=6.1"), "{info}");
    assert_eq!(client.call("CLIENT LIST").text(), info);
    assert!(matches!(client.call("CLIENT ID"), Reply::Int(id) if id > 0));
    assert_eq!(client.call("CLIENT NO-EVICT ON"), ok());
    assert_eq!(client.call("CLIENT NO-TOUCH ON"), ok());
    assert!(client.call("CLIENT KILL x").error().starts_with("ERR unknown subcommand 'KILL'"));
    assert!(client.call("CLIENT SETNAME").error().starts_with("ERR wrong number of arguments for 'client|setname'"));
}

#[test]
fn replies_can_be_turned_off() {
    let service = service();
    let mut client = Client::connect(service.resp);
    client.send(b"CLIENT REPLY SKIP\r\nPING a\r\nPING b\r\nCLIENT REPLY OFF\r\nPING c\r\nTG.CHECK api k\r\nCLIENT REPLY ON\r\nPING d\r\n");
    assert_eq!(client.read(), Reply::bulk("b"));
    assert_eq!(client.read(), ok());
    assert_eq!(client.read(), Reply::bulk("d"));
    assert_eq!(client.call("TG.PEEK api k").numbers()[2], 2, "commands without a reply are executed");
}

#[test]
fn server_commands_describe_the_service() {
    let service = service();
    for mut client in [Client::connect(service.resp), Client::connect3(service.resp)] {
        let info = client.call("INFO").text();
        for line in [
            "redis_version:7.",
            "tidegate_version:",
            "role:master",
            "loading:0",
            "uptime_in_seconds:",
            "connected_clients:",
        ] {
            assert!(info.contains(&format!("\r\n{line}")), "{line} in {info}");
        }
        let clients = client.call("INFO clients").text();
        assert!(clients.starts_with("# Clients\r\nconnected_clients:") && !clients.contains("role"), "{clients}");
        assert_eq!(client.call("INFO nothing").text(), "");
        let Reply::Int(count) = client.call("COMMAND COUNT") else { panic!("a number") };
        let Reply::List(all) = client.call("COMMAND") else { panic!("a list") };
        assert_eq!(i64::try_from(all.len()), Ok(count));
        let Reply::List(two) = client.call("COMMAND INFO tg.check nothing") else { panic!("a list") };
        let Reply::List(check) = &two[0] else { panic!("a list") };
        assert_eq!((&check[0], &check[1], &two[1]), (&Reply::bulk("tg.check"), &Reply::Int(-3), &Reply::Null));
        assert!(client.call("COMMAND DOCS TG.CHECK").field("tg.check").field("summary").text().contains("ONFAIL"));
        assert!(
            matches!(client.call("COMMAND LIST"), Reply::List(names) if names.contains(&Reply::bulk("cl.throttle")))
        );
        assert_eq!(client.call("CONFIG GET appendonly").field("appendonly"), Reply::bulk("no"));
        assert_eq!(client.call("CONFIG GET save").field("save"), Reply::bulk(""));
        assert!(matches!(client.call("CONFIG GET maxmemory"), Reply::List(none) if none.is_empty()) || client.resp3);
    }
}
