//! What the fuzzing of this project reaches inside for; no part of the interface.

/// What RESP input is cut into: the commands, how many bytes they are, and whether what follows can be none.
pub fn resp(input: &[u8], most: usize) -> (Vec<Vec<Vec<u8>>>, usize, bool) {
    crate::transports::resp::fuzzed(input, most)
}
