//! Splits any bytes into commands, or rejects them, with the same result for all ways to divide the bytes into pieces.
//! Another implementation of the protocol reads the same commands.

#![no_main]

use libfuzzer_sys::fuzz_target;
use redis_protocol::resp2::{decode::decode, types::OwnedFrame};

// Only this file: the whole service would take ten minutes to compile.
#[allow(dead_code, reason = "the target only parses requests")]
#[path = "../../crates/tidegate-server/src/transports/resp/request.rs"]
mod request;

const MAX_REQUEST: usize = 4096;

fuzz_target!(|input: (u16, Vec<u8>)| {
    let (cut, bytes) = input;
    let (commands, len, rejected) = split(&bytes, MAX_REQUEST);
    assert!(len <= bytes.len());
    assert!(rejected || bytes.len() - len <= MAX_REQUEST, "the rest of accepted input has a maximum length");

    // In two pieces: the rest of the first piece is kept until the second arrives.
    let cut = usize::from(cut) % (bytes.len() + 1);
    let (mut pieces, first, first_rejected) = split(&bytes[..cut], MAX_REQUEST);
    if !first_rejected {
        let (more, second, second_rejected) = split(&bytes[first..], MAX_REQUEST);
        pieces.extend(more);
        assert_eq!((pieces, first + second, second_rejected), (commands.clone(), len, rejected));
    }

    if let (Some(b'*'), Some(command)) = (bytes.first(), commands.first())
        && let Ok(Some((OwnedFrame::Array(frames), _))) = decode(&bytes)
        && !frames.is_empty()
    {
        let words: Vec<OwnedFrame> = command.iter().cloned().map(OwnedFrame::BulkString).collect();
        assert_eq!(frames, words, "the other implementation reads another command");
    }
});

/// Returns the commands of the input, their length in bytes, and whether the rest was rejected.
fn split(input: &[u8], max: usize) -> (Vec<Vec<Vec<u8>>>, usize, bool) {
    let mut input = input.to_vec();
    let mut requests = request::Requests::default();
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        let (count, ending) = requests.read(&mut input[at..], max);
        found.extend(
            (0..requests.len()).map(|index| requests.get(&input[at..], index).iter().map(<[u8]>::to_vec).collect()),
        );
        at += count;
        if ending != request::Ending::Enough {
            return (found, at, ending != request::Ending::Incomplete);
        }
    }
}
