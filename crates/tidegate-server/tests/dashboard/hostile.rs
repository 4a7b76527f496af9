//! Keys that an attacker chose.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
};

use crate::running::Running;

/// Returns `count` different keys: markup, scripts, control characters, right-to-left text, and keys of a thousand bytes.
pub(crate) fn keys(count: usize) -> Vec<String> {
    let kinds: [fn(usize) -> String; 12] = [
        |i| format!("<img src=x onerror=\"window.harmed={i}\">"),
        |i| format!("<script>window.harmed={i}</script>"),
        |i| format!("\"><svg/onload=window.harmed={i}>"),
        |i| format!("javascript:window.harmed={i}//"),
        |i| format!("\u{202e}{i} gnihton ton si siht\u{202c}"),
        |i| format!("\u{0}\u{1b}[31m{i}\r\n\u{8}\u{7f}"),
        |i| format!("{i}\u{2066}\u{200b}\u{feff}\u{2028}\u{2029}"),
        |i| format!("{i:0>1024}"),
        |i| format!("{i:0>8}{}", "W".repeat(1_000)),
        |i| format!("{i}{}", "a\u{489}\u{488}".repeat(100)),
        |i| format!("${{window.harmed={i}}}{{{{constructor.constructor('window.harmed={i}')()}}}}"),
        |i| format!("{i}' OR '1'='1' -- \\u003cb\\u003e &lt;b&gt; &#x3c;b&#x3e;"),
    ];
    (0..count).map(|i| kinds[i % kinds.len()](i)).collect()
}

/// Checks each key twice under a limit of one, so that each is denied once. The last 24 keys are denied 300 times more.
pub(crate) fn deny(running: &Running, keys: &[String]) {
    let mut stream = TcpStream::connect(running.resp).expect("the service listens");
    let shown = &keys[keys.len() - 24..];
    let again = std::iter::repeat_n(shown, 300).flatten();
    let checks: Vec<&String> = keys.iter().chain(keys).chain(again).collect();
    for batch in checks.chunks(500) {
        let mut bytes = Vec::new();
        for key in batch {
            write!(bytes, "*3\r\n$8\r\nTG.CHECK\r\n$3\r\napi\r\n${}\r\n{key}\r\n", key.len())
                .expect("writing to memory succeeds");
        }
        stream.write_all(&bytes).expect("the service listens");
        // A reply has seven lines.
        let lines = BufReader::new(&stream).lines().take(batch.len() * 7);
        assert!(lines.map_while(Result::ok).count() == batch.len() * 7, "every check has a reply");
    }
}
