//! The script that decides, composed of the files in `scripts`.

use redis::Script;

/// The source of the script. Each file uses names of the files before it. Functions that few requests need are created inside
/// another function when they are first called, because creating them takes longer than a decision. So `hash_log_path` and
/// `general_path` each have their own copy of the functions that both use, only keys with an override need `make_overrides`,
/// and only keys with reservations need `make_reservations`.
const SOURCE: &str = concat!(
    include_str!("scripts/call.lua"),
    "local function lease_path()\n",
    include_str!("scripts/leases.lua"),
    "return read_leases, settle_lease, grant_lease, lease_header, lease_reply\n",
    "end\n",
    "local function hash_log_path()\n",
    include_str!("scripts/exact_integers.lua"),
    include_str!("scripts/packed_records.lua"),
    include_str!("scripts/leases.lua"),
    include_str!("scripts/hash_log.lua"),
    "end\n",
    "local function general_path()\n",
    include_str!("scripts/exact_integers.lua"),
    include_str!("scripts/packed_records.lua"),
    include_str!("scripts/records.lua"),
    include_str!("scripts/log.lua"),
    include_str!("scripts/layout.lua"),
    include_str!("scripts/algorithms.lua"),
    "local make_overrides, made, make_reservations, made_reservations\n",
    "local function overrides() made = made or make_overrides() return made end\n",
    "local function reservations() made_reservations = made_reservations or make_reservations() return made_reservations end\n",
    include_str!("scripts/state.lua"),
    include_str!("scripts/migration.lua"),
    "make_overrides = function()\n",
    include_str!("scripts/override_record.lua"),
    "local function make_decisions()\n",
    include_str!("scripts/override_decisions.lua"),
    "end\n",
    "local function operations()\n",
    include_str!("scripts/override_operations.lua"),
    "end\n",
    "local function list()\n",
    include_str!("scripts/override_list.lua"),
    "end\n",
    "return { read = read_override, has_ended = has_ended, delete_state_fields = delete_state_fields,\n",
    "renew_expiry = renew_expiry, decisions = make_decisions(), operations = operations, list = list }\n",
    "end\n",
    "make_reservations = function()\n",
    include_str!("scripts/leases.lua"),
    include_str!("scripts/reservation_records.lua"),
    include_str!("scripts/reservation_ends.lua"),
    "end\n",
    include_str!("scripts/operations.lua"),
    "local function reservation_operations()\n",
    include_str!("scripts/reservation_operations.lua"),
    "end\n",
    include_str!("scripts/groups.lua"),
    "end\n",
    include_str!("scripts/decide.lua"),
    "while group_at <= length do\n",
    include_str!("scripts/decide_group.lua"),
    "for _ = 1, count do\n",
    include_str!("scripts/decide_key.lua"),
    "if is_simple and number_format then\n",
    include_str!("scripts/decide_numbers.lua"),
    "elseif is_simple and n == 1 and kind == LOG then\n",
    include_str!("scripts/decide_log.lua"),
    "end\n",
    include_str!("scripts/decide_reply.lua"),
    "end\n",
    "group_at = group_at + 11 + 16 * parts\n",
    "end\n",
    "if ended then replies[answered + 1] = pack('>I4', ended) end\n",
    "return table.concat(replies)\n",
);

/// The script, and the hash by which EVALSHA calls it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) sha: String,
}

impl Source {
    /// Composes the script. Tests set `page_size`, the number of entries in a page or a node, so that short logs have
    /// many, and so do a few reservations.
    pub(crate) fn new(page_size: Option<usize>) -> Self {
        // Comments and indentation need not be sent with every load.
        let lines = SOURCE.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
        let resized = |line: &str| match (page_size, line.split_once(" = ")) {
            (Some(entries), Some((name @ ("local PAGE" | "local NODE" | "local RESERVATION_PAGE"), _))) => {
                format!("{name} = {entries}")
            }
            _ => line.to_owned(),
        };
        let text = lines.map(resized).collect::<Vec<_>>().join("\n");
        let sha = Script::new(&text).get_hash().to_owned();
        Self { text, sha }
    }
}
