//! The script that decides, in one piece.

use redis::Script;

/// The parts of the script, in the order in which they need each other. What is rarely needed is a function that makes
/// further functions, so that most calls need not.
const SOURCE: &str = concat!(
    include_str!("scripts/numbers.lua"),
    include_str!("scripts/shape.lua"),
    include_str!("scripts/request.lua"),
    include_str!("scripts/fast.lua"),
    "local function everything()\n",
    include_str!("scripts/log.lua"),
    include_str!("scripts/tracks.lua"),
    include_str!("scripts/state.lua"),
    include_str!("scripts/reshape.lua"),
    include_str!("scripts/thorough.lua"),
    "end\n",
    include_str!("scripts/decide.lua"),
);

/// The script with its hash, by which it is called.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) sha: String,
}

impl Source {
    /// The script with so many entries to a page of a log; other than 128 only for tests, and under a prefix of its own.
    pub(crate) fn new(page: usize) -> Self {
        // Comments and indentation need not cross the wire at every load.
        let lines = SOURCE.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
        let text =
            lines.collect::<Vec<_>>().join("\n").replacen("local PAGE = 128", &format!("local PAGE = {page}"), 1);
        let sha = Script::new(&text).get_hash().to_owned();
        Self { text, sha }
    }
}
