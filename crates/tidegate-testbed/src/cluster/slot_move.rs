//! [`SlotMove`]: a slot on its way from one master to another.

use super::{Cluster, ask};
use crate::server::Server;

/// A slot on its way to another master, for a test to act in the middle.
#[derive(Debug)]
#[must_use = "the slot stays on its way until it is finished"]
pub struct SlotMove<'a> {
    cluster: &'a Cluster,
    slot: String,
    from: usize,
    to: usize,
}

impl<'a> SlotMove<'a> {
    #[track_caller]
    pub(super) fn begin(cluster: &'a Cluster, slot: u16, to: usize) -> Self {
        let moving = Self { cluster, slot: slot.to_string(), from: cluster.master_of_slot(slot), to };
        assert_ne!(moving.from, to, "slot {slot} is there already");
        // The target first: it must not turn away those whom the source sends.
        let (from_id, to_id) = (&cluster.ids[moving.from], &cluster.ids[to]);
        ask(moving.target(), ["CLUSTER", "SETSLOT", &moving.slot, "IMPORTING", from_id]).expect_ok();
        ask(moving.source(), ["CLUSTER", "SETSLOT", &moving.slot, "MIGRATING", to_id]).expect_ok();
        moving
    }

    /// The node that the slot leaves.
    pub fn from(&self) -> usize {
        self.from
    }

    /// The node that the slot goes to.
    pub fn to(&self) -> usize {
        self.to
    }

    /// Moves at most so many keys, and tells how many there were.
    #[track_caller]
    pub fn move_keys(&self, at_most: usize) -> usize {
        let keys = ask(self.source(), ["CLUSTER", "GETKEYSINSLOT", &self.slot, &at_most.to_string()]);
        let keys: Vec<_> = keys.array().iter().map(|key| key.bulk().expect("a key")).collect();
        if keys.is_empty() {
            return 0;
        }
        let port = self.target().port().to_string();
        let mut migrate: Vec<&[u8]> =
            ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"].map(str::as_bytes).into();
        migrate.extend(&keys);
        let reply = ask(self.source(), migrate);
        // No key is left where all have expired since.
        assert!(["OK", "NOKEY"].contains(&&*reply.as_str_lossy()), "{reply:?}");
        keys.len()
    }

    /// Moves the keys that are left, gives the slot to its new master, and waits until every node knows.
    #[track_caller]
    pub fn finish(self) {
        while self.move_keys(100) > 0 {}
        let id = &self.cluster.ids[self.to];
        let masters =
            self.cluster.up().filter(|&(index, node)| index != self.to && index != self.from && is_master(node));
        // The target first, so that there is never nobody who serves the slot.
        for node in [self.target(), self.source()].into_iter().chain(masters.map(|(_, node)| node)) {
            ask(node, ["CLUSTER", "SETSLOT", &self.slot, "NODE", id]).expect_ok();
        }
        self.cluster.settle();
    }

    fn source(&self) -> &'a Server {
        &self.cluster.nodes[self.from]
    }

    fn target(&self) -> &'a Server {
        &self.cluster.nodes[self.to]
    }
}

fn is_master(node: &Server) -> bool {
    ask(node, ["ROLE"]).array()[0].as_str_lossy() == "master"
}
