//! Whatever comes over a connection is cut into commands, or refused, the same way however it arrives in pieces; and what is
//! taken for a command is the same to another implementation of the protocol.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redis_protocol::resp2::{decode::decode, types::OwnedFrame};

// The file itself and not the service around it, which would take ten minutes to compile.
#[path = "../../crates/tidegate-server/src/transports/resp/request.rs"]
mod request;

const MOST: usize = 4096;

fuzz_target!(|input: (u16, Vec<u8>)| {
    let (cut, bytes) = input;
    let (commands, len, ended) = resp(&bytes, MOST);
    assert!(len <= bytes.len());
    assert!(ended || bytes.len() - len <= MOST, "what is not refused is bounded");

    // In two pieces: what the first leaves over is there when the second comes.
    let cut = usize::from(cut) % (bytes.len() + 1);
    let (mut pieces, first, broken) = resp(&bytes[..cut], MOST);
    if !broken {
        let (more, second, broken) = resp(&bytes[first..], MOST);
        pieces.extend(more);
        assert_eq!((pieces, first + second, broken), (commands.clone(), len, ended));
    }

    if let (Some(b'*'), Some(command)) = (bytes.first(), commands.first())
        && let Ok(Some((OwnedFrame::Array(frames), _))) = decode(&bytes)
        && !frames.is_empty()
    {
        let words: Vec<OwnedFrame> = command.iter().cloned().map(OwnedFrame::BulkString).collect();
        assert_eq!(frames, words, "another reads something else");
    }
});

/// What input is cut into: the commands, how many bytes they are, and whether what follows can be none.
fn resp(input: &[u8], most: usize) -> (Vec<Vec<Vec<u8>>>, usize, bool) {
    let mut input = input.to_vec();
    let mut requests = request::Requests::default();
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        let (count, ending) = requests.read(&mut input[at..], most);
        found.extend((0..requests.len()).map(|place| requests.get(&input[at..], place).iter().map(<[u8]>::to_vec).collect()));
        at += count;
        if ending != request::Ending::Enough {
            return (found, at, ending != request::Ending::Incomplete);
        }
    }
}
