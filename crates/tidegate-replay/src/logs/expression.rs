//! Regular expressions of users, with bounded memory.

use regex::bytes::{Regex, RegexBuilder};

/// Maximum size of a compiled expression, and of the cache of its automaton.
const MAX_BYTES: usize = 1 << 20;

/// Compiles a regular expression.
pub(super) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(MAX_BYTES).dfa_size_limit(MAX_BYTES).build()
}
