//! The script that decides, in one piece.

use redis::Script;

/// The parts of the script, in the order in which they need each other. What is needed now and then only is inside a function
/// that makes further functions: making them takes longer than a decision. So each of the two has its own copy of the numbers, and what only keys
/// with an override need is inside a third.
const SOURCE: &str = concat!(
    include_str!("scripts/request.lua"),
    "local function long_log()\n",
    include_str!("scripts/numbers.lua"),
    include_str!("scripts/long_log.lua"),
    "end\n",
    "local function everything()\n",
    include_str!("scripts/numbers.lua"),
    include_str!("scripts/runs.lua"),
    include_str!("scripts/log.lua"),
    include_str!("scripts/shape.lua"),
    include_str!("scripts/tracks.lua"),
    // Few keys have one.
    "local make_overrides, made\n",
    "local function overrides() made = made or make_overrides() return made end\n",
    include_str!("scripts/state.lua"),
    include_str!("scripts/reshape.lua"),
    "make_overrides = function()\n",
    include_str!("scripts/override.lua"),
    "local function overruling()\n",
    include_str!("scripts/overruling.lua"),
    "end\n",
    "local function overriding()\n",
    include_str!("scripts/overriding.lua"),
    "end\n",
    "local function listing()\n",
    include_str!("scripts/listing.lua"),
    "end\n",
    "return { from = override_from, is_over = is_over, forget_fields = forget_fields, live_on = live_on,\n",
    "save_beside = save_beside, ruling = overruling(), overriding = overriding, listing = listing }\n",
    "end\n",
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
    /// The script; `few` for tests, which then see pages and nodes of so many entries come and go.
    pub(crate) fn new(few: Option<usize>) -> Self {
        // Comments and indentation need not cross the wire at every load.
        let lines = SOURCE.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
        let with_few = |line: &str| match few {
            Some(few) if line.starts_with("local PAGE = ") => format!("local PAGE = {few}"),
            Some(few) if line.starts_with("local NODE = ") => format!("local NODE = {few}"),
            _ => line.to_owned(),
        };
        let text = lines.map(with_few).collect::<Vec<_>>().join("\n");
        let sha = Script::new(&text).get_hash().to_owned();
        Self { text, sha }
    }
}
