//! [`Cluster`]: redis servers that share the slots.

mod builder;
mod nodes_view;
mod slot_move;

use std::{ops::Range, time::Duration};

pub use builder::ClusterBuilder;
pub use slot_move::SlotMove;

use crate::{
    reply::Reply,
    server::Server,
    wait::{timed, wait_for},
};

/// The number of slots in every cluster.
const SLOTS: u16 = 16_384;

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

/// The result of a failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failover {
    /// The node that became the master.
    pub new_master: usize,
    /// The time until every running node knew the new master.
    pub took: Duration,
}

impl Cluster {
    /// Starts a cluster and waits until every slot is served.
    #[track_caller]
    pub fn start(masters: usize, replicas_each: usize) -> Self {
        Self::builder().masters(masters).replicas_each(replicas_each).start()
    }

    /// Settings for a cluster; 3 masters with one replica each by default.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
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

    /// The present replicas of this master.
    #[track_caller]
    pub fn replicas_of(&self, master: usize) -> Vec<usize> {
        let view = nodes_view::of(&self.nodes[master]).expect("a running node replies");
        let replicas = view.iter().filter(|entry| entry.master.as_ref() == Some(&self.ids[master]));
        replicas.filter_map(|entry| self.index(&entry.id)).collect()
    }

    /// Kills a master (`SIGKILL`) and waits until a replica has replaced it.
    #[track_caller]
    pub fn failover_of(&self, master: usize) -> Failover {
        let slot = self.some_slot_of(master);
        self.nodes[master].kill();
        let ((), took) = timed(|| self.settle());
        Failover { new_master: self.master_of_slot(slot), took }
    }

    /// Makes a replica the master with the consent of its master (`CLUSTER FAILOVER`), and waits for that.
    #[track_caller]
    pub fn graceful_failover(&self, replica: usize) -> Failover {
        let node = &self.nodes[replica];
        let ((), took) = timed(|| {
            command(node, ["CLUSTER", "FAILOVER"]).expect_ok();
            wait_for("a replica to become the master", AGREEMENT, || {
                let me =
                    nodes_view::of(node)?.into_iter().find(|entry| entry.myself).ok_or("it does not know itself")?;
                if me.master.is_none() { Ok(()) } else { Err(format!("it is {}", me.flags)) }
            });
            self.settle();
        });
        Failover { new_master: replica, took }
    }

    /// Moves a slot to another master, `chunk` keys at a time.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, to: usize, chunk: usize) {
        let moving = self.begin_move(slot, to);
        while moving.move_keys(chunk) > 0 {}
        moving.finish();
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

    #[track_caller]
    fn some_slot_of(&self, master: usize) -> u16 {
        let view = nodes_view::of(&self.nodes[master]).expect("a running node replies");
        let slots = view.iter().find(|entry| entry.myself).and_then(|me| me.slots.first());
        *slots.unwrap_or_else(|| panic!("node {master} serves no slots")).start()
    }
}

/// Sends a command to a running node.
#[track_caller]
fn command<A: AsRef<[u8]>>(node: &Server, args: impl IntoIterator<Item = A>) -> Reply {
    node.query(args).unwrap_or_else(|error| panic!("{error}"))
}

/// The slots of one of `masters` masters.
fn slots_of(master: usize, masters: usize) -> Range<usize> {
    let start = |master| usize::from(SLOTS) * master / masters;
    start(master)..start(master + 1)
}
