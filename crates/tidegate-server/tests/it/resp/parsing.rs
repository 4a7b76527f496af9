//! Input is parsed into the same commands however it is split, and another implementation agrees.

use redis_protocol::resp2::{decode::decode, types::OwnedFrame};
use tidegate_server::fuzzing::resp;

const MAX_LENGTH: usize = 1024;

/// Valid and invalid pieces of input.
const PIECES: [&[u8]; 24] = [
    b"*1\r\n",
    b"*2\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*3",
    b"\r\n",
    b"$4\r\nPING\r\n",
    b"$0\r\n\r\n",
    b"$3\r\nabc\r\n",
    b"$3\r\nabcd\r\n",
    b"$-1\r\n",
    b"$1000\r\n",
    b"$99999\r\n",
    b"PING\r\n",
    b"ECHO \"a b\"\r\n",
    b"ECHO 'x\r\n",
    b"TG.CHECK api k\r\n",
    b"\n",
    b" ",
    b"$8\r\nTG.CHECK\r\n",
    b"$2\r\n\r\n\r\n",
    b"\xff\x00",
    b":1\r\n",
    b"*1\r\n$4\r\nPING\r\n",
];

#[test]
fn input_is_parsed_the_same_way_however_it_is_split() {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = move |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits") % bound
    };
    let mut agreed = 0;
    for _ in 0..50_000 {
        let input: Vec<u8> = (0..=next(12)).flat_map(|_| PIECES[next(PIECES.len())]).copied().collect();
        let whole = resp(&input, MAX_LENGTH);
        assert!(whole.2 || input.len() - whole.1 <= MAX_LENGTH, "unparsed input is bounded");
        let (mut commands, first, broken) = resp(&input[..next(input.len() + 1)], MAX_LENGTH);
        if !broken {
            let (more, second, broken) = resp(&input[first..], MAX_LENGTH);
            commands.extend(more);
            assert_eq!((commands, first + second, broken), whole, "{}", input.escape_ascii());
        }
        if let (Some(b'*'), Some(command)) = (input.first(), whole.0.first())
            && let Ok(Some((OwnedFrame::Array(frames), _))) = decode(&input)
            && !frames.is_empty()
        {
            let words: Vec<OwnedFrame> = command.iter().cloned().map(OwnedFrame::BulkString).collect();
            assert_eq!(frames, words, "{}", input.escape_ascii());
            agreed += 1;
        }
    }
    assert!(agreed > 1_000, "only {agreed} commands were compared");
}
