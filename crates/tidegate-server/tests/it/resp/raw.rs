//! Bytes that no client library sends. The service still answers other connections.

use super::{
    client::{Client, Reply, command},
    service, service_with,
};

fn pong() -> Reply {
    Reply::Simple("PONG".to_owned())
}

#[test]
fn a_command_may_be_split_at_any_byte() {
    let service = service();
    let mut whole = command([b"TG.CHECK".as_slice(), b"wide", b"a\r\nb", b"COST", b"2"]);
    whole.extend_from_slice(b"\r\nPING \"a b\"\r\n*0\r\n*-1\r\n");
    whole.extend(command(["ECHO", ""]));
    let mut spent = 0;
    for cut in 0..=whole.len() {
        let mut client = Client::connect(service.resp);
        client.send(&whole[..cut]);
        // When another connection is answered, the first piece has been read.
        assert_eq!(Client::connect(service.resp).call("PING"), pong());
        client.send(&whole[cut..]);
        spent += 2;
        assert_eq!(client.read().numbers()[..3], [1, 1_000_000, 1_000_000 - spent], "cut at {cut}");
        assert_eq!(client.read(), Reply::bulk("a b"));
        assert_eq!(client.read(), Reply::bulk(""));
    }
    let mut client = Client::connect(service.resp);
    for byte in &whole {
        client.send(&[*byte]);
    }
    assert_eq!(client.read().numbers()[2], 1_000_000 - spent - 2);
}

#[test]
fn a_protocol_error_is_reported_and_closes_the_connection() {
    let service = service();
    let long = vec![b'a'; 70_000];
    let deep = b"*1\r\n".repeat(100_000);
    for (bytes, expected) in [
        (&b"*3\r\n$3\r\nFOO\r\n+x\r\n"[..], "ERR Protocol error: expected '$', got '+'"),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", "ERR Protocol error: expected '$', got '*'"),
        (&deep, "ERR Protocol error: expected '$', got '*'"),
        (b"*99999999999999999999\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*1025\r\n", "ERR Protocol error: invalid multibulk length, use at most 1024"),
        (b"*2147483648\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*x\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*1\n$4\nPING\n", "ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n$536870912\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$999999999999999999\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$9999999999999999999999\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$-1\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$4\r\nPINGPONG\r\n", "ERR Protocol error: a bulk string is longer than its length says"),
        (b"*2\r\n$40000\r\n", ""),
        (&long, "ERR Protocol error: too big inline request"),
        (b"PING \"a\r\n", "ERR Protocol error: unbalanced quotes in request"),
        (b"PING \"a\"b\r\n", "ERR Protocol error: unbalanced quotes in request"),
    ] {
        let mut client = Client::connect(service.resp);
        client.send(&command(["PING"]));
        let _ = client.try_send(bytes);
        assert_eq!(client.read(), pong(), "earlier commands are answered");
        if expected.is_empty() {
            client.finish();
        } else {
            let reply = client.read();
            assert!(
                reply.error().starts_with(expected),
                "{}\n gives {reply:?}",
                bytes[..bytes.len().min(40)].escape_ascii()
            );
        }
        client.expect_end();
        assert_eq!(Client::connect(service.resp).call("PING"), pong());
    }
}

#[test]
fn garbage_does_not_affect_other_connections() {
    let service = service();
    // A fixed generator, so that the garbage is the same in every run.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    for round in 0..200_usize {
        let alphabet = b"*$:+-\r\n0123456789 \"'\\xTG.CHECK";
        let byte =
            |random: u8| if round.is_multiple_of(2) { random } else { alphabet[usize::from(random) % alphabet.len()] };
        let bytes: Vec<u8> = (0..=round * 7).map(|_| byte(next())).collect();
        let mut client = Client::connect(service.resp);
        let _ = client.try_send(&bytes);
        let _ = client.try_send(b"\r\n");
        client.finish();
        while let Some(reply) = client.try_read().expect("it ends") {
            assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
        }
    }
    assert_eq!(Client::connect(service.resp).call("PING"), pong());
}

#[test]
fn inline_commands_are_parsed_like_redis() {
    let service = service();
    let mut client = Client::connect(service.resp);
    for (line, expected) in [
        ("echo hello", "hello"),
        ("  ECHO \t hello  ", "hello"),
        ("ECHO \"a b\\n\\x41\\\"\"", "a b\nA\""),
        ("ECHO 'it\\'s \\n'", "it's \\n"),
        ("\"ECHO\" \"\"", ""),
    ] {
        client.send(format!("{line}\r\n").as_bytes());
        assert_eq!(client.read(), Reply::bulk(expected), "{line}");
    }
    client.send(b"\r\n\n   \r\nPING\n");
    assert_eq!(client.read(), pong());
    client.send(b"TG.CHECK api k\r\n");
    assert_eq!(client.read().numbers()[..3], [1, 3, 2]);
    // As RESP commands, these words are unknown commands.
    assert!(client.call("POST / x").error().starts_with("ERR unknown command 'POST'"));
    client.send(b"GET foo\r\n");
    assert!(client.read().error().starts_with("ERR unknown command 'GET'"));
}

#[test]
fn http_requests_are_closed_without_a_reply() {
    let service = service();
    for bytes in [
        &b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nTG.RESET api k\r\n"[..],
        b"post anything\r\nTG.CHECK api k\r\n",
        b"Host: localhost\r\nTG.CHECK api k\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET http://localhost/ HTTP/1.1\r\n\r\n",
        b"PUT /x HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = Client::connect(service.resp);
        client.send(bytes);
        client.expect_end();
    }
    assert_eq!(Client::connect(service.resp).call("TG.PEEK api k").numbers()[2], 3, "no command was executed");
}

#[test]
fn the_configured_maximum_length_of_a_command_applies() {
    let service = service_with("max_body = \"2KB\"");
    let mut client = Client::connect(service.resp);
    // The rest of the command is `*2 $4 ECHO $4 …` and its line ends.
    let fits = vec![b'x'; 2000 - 24];
    client.send(&command([b"ECHO", fits.as_slice()]));
    assert_eq!(client.read(), Reply::Bulk(fits));
    client.send(&command([b"ECHO", [b'x'; 4000].as_slice()]));
    assert!(client.read().error().starts_with("ERR Protocol error: invalid bulk length, a command has at most"));
    client.expect_end();
    let mut client = Client::connect(service.resp);
    client.send(&command((0..400).map(|_| "x")));
    assert!(client.read().error().starts_with("ERR Protocol error: "));
    client.expect_end();
    let mut client = Client::connect(service.resp);
    client.send(&[b'x'; 5000]);
    assert_eq!(client.read().error(), "ERR Protocol error: too big inline request");
    client.expect_end();
}
