//! Access to internal functions for this project's fuzzing and its tests. Not part of the public API.

/// Parses RESP input of commands with at most `max` bytes. Returns the commands, the number of bytes that they take, and whether
/// the rest can't be a command.
pub fn resp(input: &[u8], max: usize) -> (Vec<Vec<Vec<u8>>>, usize, bool) {
    crate::transports::resp::fuzzed(input, max)
}
