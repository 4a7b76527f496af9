//! [`SlotMove`]: a slot that moves from one master to another.

use super::{Cluster, command};
use crate::server::Server;

/// A slot that moves to another master, so that a test can act during the move.
#[derive(Debug)]
#[must_use = "the move does not end before `finish`"]
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
        // The target first: it must not reject the clients that the source redirects.
        let (from_id, to_id) = (&cluster.ids[moving.from], &cluster.ids[to]);
        command(moving.target(), ["CLUSTER", "SETSLOT", &moving.slot, "IMPORTING", from_id]).expect_ok();
        command(moving.source(), ["CLUSTER", "SETSLOT", &moving.slot, "MIGRATING", to_id]).expect_ok();
        moving
    }

    /// Moves up to `at_most` keys and returns their number.
    #[track_caller]
    pub fn move_keys(&self, at_most: usize) -> usize {
        let keys = command(self.source(), ["CLUSTER", "GETKEYSINSLOT", &self.slot, &at_most.to_string()]);
        let keys: Vec<_> = keys.array().iter().map(|key| key.bulk().expect("a key")).collect();
        if keys.is_empty() {
            return 0;
        }
        let port = self.target().port().to_string();
        let mut migrate: Vec<&[u8]> =
            ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"].map(str::as_bytes).into();
        migrate.extend(&keys);
        let reply = command(self.source(), migrate);
        // `NOKEY` means that all keys have expired meanwhile.
        assert!(["OK", "NOKEY"].contains(&&*reply.as_str_lossy()), "{reply:?}");
        keys.len()
    }

    /// Moves the remaining keys, assigns the slot to its new master, and waits until all nodes agree.
    #[track_caller]
    pub fn finish(self) {
        while self.move_keys(100) > 0 {}
        let id = &self.cluster.ids[self.to];
        let masters =
            self.cluster.running().filter(|&(index, node)| index != self.to && index != self.from && is_master(node));
        // The target first, so that a node serves the slot at any time.
        for node in [self.target(), self.source()].into_iter().chain(masters.map(|(_, node)| node)) {
            command(node, ["CLUSTER", "SETSLOT", &self.slot, "NODE", id]).expect_ok();
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
    command(node, ["ROLE"]).array()[0].as_str_lossy() == "master"
}
