//! pingora-limits: a count-min sketch of fixed size, so it overcounts when there are many keys.

use pingora_limits::rate::Rate;

use super::ContenderEntry;

pub(super) const ENTRY: ContenderEntry = ContenderEntry {
    project: "pingora-limits",
    name: "pingora-limits 0.9 sketch",
    like: Some("tidegate fixed_window"),
    build: |limit| {
        let max = isize::try_from(limit.max()).expect("limits are small");
        let rate = Rate::new(limit.window());
        Box::new(move |key: &String| rate.observe(key, 1) <= max)
    },
};
