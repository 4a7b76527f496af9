//! [`Cluster`]: redis servers that share the slots among them.

mod builder;
mod slot_move;
mod view;

use std::{ops::Range, time::Duration};

pub use builder::ClusterBuilder;
pub use slot_move::SlotMove;

use crate::{
    patience::{timed, wait_for},
    reply::Reply,
    server::Server,
};

/// The number of slots in every cluster.
const SLOTS: u16 = 16_384;

/// How long the nodes may take to agree.
const AGREEMENT: Duration = Duration::from_secs(30);

/// A redis cluster. Nodes are known by their index, which they keep when roles change.
///
/// The first nodes begin as masters, the others as their replicas: with two replicas each, those of master 0 come first.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    /// What the cluster calls the nodes.
    ids: Vec<String>,
}

/// How a failover went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failover {
    /// The node that took over.
    pub new_master: usize,
    /// How long it took until every node that is up knew.
    pub took: Duration,
}

impl Cluster {
    /// Starts a cluster and waits until it is whole.
    #[track_caller]
    pub fn start(masters: usize, replicas_each: usize) -> Self {
        Self::builder().masters(masters).replicas_each(replicas_each).start()
    }

    /// A cluster to be, of 3 masters with a replica each.
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
        let (_, node) = self.up().next().expect("a node that is up");
        let reply = ask(node, [b"CLUSTER", b"KEYSLOT".as_slice(), key.as_ref()]);
        u16::try_from(reply.integer()).expect("a slot")
    }

    /// The node that says it is the slot's master; the one with the latest configuration, if two say so.
    #[track_caller]
    pub fn master_of_slot(&self, slot: u16) -> usize {
        self.up()
            .filter_map(|(index, node)| {
                let me = view::of(node).expect("a node that is up answers").into_iter().find(|line| line.myself)?;
                me.has_slot(slot).then_some((me.epoch, index))
            })
            .max()
            .unwrap_or_else(|| panic!("nobody serves slot {slot}"))
            .1
    }

    /// The nodes that follow this master now.
    #[track_caller]
    pub fn replicas_of(&self, master: usize) -> Vec<usize> {
        let view = view::of(&self.nodes[master]).expect("a node that is up answers");
        let replicas = view.iter().filter(|line| line.master.as_ref() == Some(&self.ids[master]));
        replicas.filter_map(|line| self.index(&line.id)).collect()
    }

    /// Kills a master (`SIGKILL`) and waits until a replica has taken over.
    #[track_caller]
    pub fn failover_of(&self, master: usize) -> Failover {
        let slot = self.some_slot_of(master);
        self.nodes[master].kill();
        let ((), took) = timed(|| self.settle());
        Failover { new_master: self.master_of_slot(slot), took }
    }

    /// Lets a replica take over from its master in agreement (`CLUSTER FAILOVER`) and waits until it has.
    #[track_caller]
    pub fn graceful_failover(&self, replica: usize) -> Failover {
        let node = &self.nodes[replica];
        let ((), took) = timed(|| {
            ask(node, ["CLUSTER", "FAILOVER"]).expect_ok();
            wait_for("a replica to take over", AGREEMENT, || {
                let me = view::of(node)?.into_iter().find(|line| line.myself).ok_or("it does not know itself")?;
                if me.master.is_none() { Ok(()) } else { Err(format!("it is {}", me.flags)) }
            });
            self.settle();
        });
        Failover { new_master: replica, took }
    }

    /// Moves a slot to another master, so many keys at a time.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, to: usize, chunk: usize) {
        let moving = self.begin_move(slot, to);
        while moving.move_keys(chunk) > 0 {}
        moving.finish();
    }

    /// Begins to move a slot to another master. From now on its present master sends clients there for keys that it has
    /// not (`ASK`).
    #[track_caller]
    pub fn begin_move(&self, slot: u16, to: usize) -> SlotMove<'_> {
        SlotMove::begin(self, slot, to)
    }

    /// Waits until the cluster is whole: every node that is up sees every slot served by a node that is up, they all see
    /// the same, and replicas are linked with their masters.
    #[track_caller]
    pub fn settle(&self) {
        wait_for("the nodes to agree", AGREEMENT, || view::agreement(self));
    }

    /// The nodes that are up, with their index.
    fn up(&self) -> impl Iterator<Item = (usize, &Server)> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.is_up())
    }

    fn index(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|known| known == id)
    }

    #[track_caller]
    fn some_slot_of(&self, master: usize) -> u16 {
        let view = view::of(&self.nodes[master]).expect("a node that is up answers");
        let slots = view.iter().find(|line| line.myself).and_then(|me| me.slots.first());
        *slots.unwrap_or_else(|| panic!("node {master} serves no slots: there is nothing to take over")).start()
    }
}

/// Asks a node that is up.
#[track_caller]
fn ask<A: AsRef<[u8]>>(node: &Server, args: impl IntoIterator<Item = A>) -> Reply {
    node.ask(args).unwrap_or_else(|why| panic!("{why}"))
}

/// The slots of one of so many masters.
fn share(master: usize, masters: usize) -> Range<usize> {
    let start = |master| usize::from(SLOTS) * master / masters;
    start(master)..start(master + 1)
}
