//! [`Cluster`]: redis servers that share the slots.

mod nodes_view;
mod slot_move;
mod start;

use std::time::Duration;

pub use slot_move::SlotMove;

use crate::{reply::Reply, server::Server, wait::wait_for};

/// Maximum time until the nodes agree.
const AGREEMENT: Duration = Duration::from_secs(30);

/// A redis cluster. A node keeps its index when its role changes.
///
/// At the start, the first nodes are masters and the others are their replicas. The replicas of master 0 come first.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    /// The node ids of the cluster.
    ids: Vec<String>,
}

impl Cluster {
    /// Starts a cluster and waits until every slot is served.
    #[track_caller]
    pub fn start(masters: usize, replicas_each: usize) -> Self {
        Self::start_with(masters, replicas_each, &[])
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// `redis-cluster://127.0.0.1:1,127.0.0.1:2`, with every node.
    pub fn url(&self) -> String {
        let addrs: Vec<_> = self.nodes.iter().map(Server::addr).collect();
        format!("redis-cluster://{}", addrs.join(","))
    }

    /// The slot of a key.
    #[track_caller]
    pub fn key_slot(&self, key: impl AsRef<[u8]>) -> u16 {
        let (_, node) = self.running().next().expect("a running node");
        let reply = command(node, [b"CLUSTER", b"KEYSLOT".as_slice(), key.as_ref()]);
        u16::try_from(reply.integer()).expect("a slot")
    }

    /// The node that reports itself as the slot's master. Of two, the one with the latest configuration.
    #[track_caller]
    pub fn master_of_slot(&self, slot: u16) -> usize {
        self.running()
            .filter_map(|(index, node)| {
                let me =
                    nodes_view::of(node).expect("a running node replies").into_iter().find(|entry| entry.myself)?;
                me.has_slot(slot).then_some((me.epoch, index))
            })
            .max()
            .unwrap_or_else(|| panic!("no node serves slot {slot}"))
            .1
    }

    /// Begins to move a slot to another master. From now on its present master redirects clients there for keys that it
    /// does not have (`ASK`).
    #[track_caller]
    pub fn begin_move(&self, slot: u16, to: usize) -> SlotMove<'_> {
        SlotMove::begin(self, slot, to)
    }

    /// Waits until all running nodes agree that running nodes serve every slot, and until replicas are linked with
    /// their masters.
    #[track_caller]
    pub fn settle(&self) {
        wait_for("the nodes to agree", AGREEMENT, || nodes_view::agreement(self));
    }

    /// The running nodes, with their index.
    fn running(&self) -> impl Iterator<Item = (usize, &Server)> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.is_up())
    }

    fn index(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|known| known == id)
    }
}

/// Sends a command to a running node.
#[track_caller]
fn command<A: AsRef<[u8]>>(node: &Server, args: impl IntoIterator<Item = A>) -> Reply {
    node.query(args).unwrap_or_else(|error| panic!("{error}"))
}
