//! pingora-limits: a count-min sketch of fixed size, so it overcounts when there are many keys.

use pingora_limits::rate::Rate;

use super::{Contender, ContenderEntry, Quota};

pub(super) const ENTRY: ContenderEntry = ContenderEntry {
    project: "pingora-limits",
    name: "pingora-limits 0.9 sketch",
    like: Some("tidegate fixed_window"),
    build: |quota| Box::new(Pingora::new(quota)),
};

struct Pingora {
    rate: Rate,
    max: isize,
}

impl Pingora {
    fn new(quota: Quota) -> Self {
        Self { rate: Rate::new(quota.window), max: isize::try_from(quota.max.get()).expect("quotas are small") }
    }
}

impl Contender for Pingora {
    fn decide(&self, key: &String) -> bool {
        self.rate.observe(key, 1) <= self.max
    }
}
