//! A node's view of the cluster, as `CLUSTER NODES` reports it.

use std::ops::RangeInclusive;

use super::Cluster;
use crate::server::Server;

/// One node in a node's view.
#[derive(Debug)]
pub(super) struct NodeEntry {
    pub(super) id: String,
    pub(super) flags: String,
    pub(super) myself: bool,
    /// The id of its master, if it is a replica.
    pub(super) master: Option<String>,
    pub(super) epoch: u64,
    connected: bool,
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

impl NodeEntry {
    pub(super) fn has_slot(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.flags.split(',').any(|has| has == flag)
    }

    /// Whether the node is known and healthy.
    fn is_healthy(&self) -> bool {
        let unhealthy = ["fail", "fail?", "handshake", "noaddr"];
        (self.connected || self.myself) && !unhealthy.iter().any(|flag| self.has_flag(flag))
    }

    /// `id ip:port@bus flags master ping-sent pong-received epoch link slot…`
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<_> = text.split(' ').collect();
        let [id, _, flags, master, _, _, epoch, state, slots @ ..] = &fields[..] else { return None };
        let mut entry = Self {
            id: (*id).to_owned(),
            flags: (*flags).to_owned(),
            myself: false,
            master: (*master != "-").then(|| (*master).to_owned()),
            epoch: epoch.parse().ok()?,
            connected: *state == "connected",
            slots: Vec::new(),
        };
        entry.myself = entry.has_flag("myself");
        // A moving slot is listed twice: in brackets, and in its range.
        for slots in slots.iter().filter(|slots| !slots.starts_with('[')) {
            let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
            entry.slots.push(first.parse().ok()?..=last.parse().ok()?);
        }
        Some(entry)
    }
}

/// The view of this node, sorted by id.
pub(super) fn of(node: &Server) -> Result<Vec<NodeEntry>, String> {
    let text = query(node, &["CLUSTER", "NODES"])?;
    let entries = text.lines().map(|line| NodeEntry::parse(line).ok_or_else(|| format!("unexpected line: {line}")));
    let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(entries)
}

/// Checks that the view contains every node and that every running node is healthy there.
pub(super) fn all_known(view: &[NodeEntry], cluster: &Cluster) -> Result<(), String> {
    for (id, node) in cluster.ids.iter().zip(&cluster.nodes) {
        match view.iter().find(|entry| entry.id == *id) {
            None => return Err(format!("{node:?} is not known to all nodes")),
            Some(entry) if node.is_up() && !entry.is_healthy() => {
                return Err(format!("{node:?} has the flags {}", entry.flags));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Checks that all running nodes have the same view and that all slots are served there.
pub(super) fn agreement(cluster: &Cluster) -> Result<(), String> {
    let mut first = None;
    for (_, node) in cluster.running() {
        let info = query(node, &["CLUSTER", "INFO"])?;
        if !info.contains("cluster_state:ok") {
            return Err(format!("{node:?} reports that the cluster is not ok"));
        }
        let view = of(node)?;
        all_known(&view, cluster)?;
        if let Some(entry) = view.iter().find(|entry| !entry.slots.is_empty() && !serves(entry, cluster)) {
            return Err(format!("{node:?} reports slots of {}, which is not running", entry.id));
        }
        let mine = view.iter().find(|entry| entry.myself);
        let linked = || Ok::<_, String>(query(node, &["INFO", "replication"])?.contains("master_link_status:up"));
        if mine.is_some_and(|me| me.master.is_some()) && !linked()? {
            return Err(format!("{node:?} is not linked with its master"));
        }
        let roles: Vec<_> = view.into_iter().map(|entry| (entry.id, entry.master, entry.slots)).collect();
        if *first.get_or_insert_with(|| roles.clone()) != roles {
            return Err(format!("{node:?} reports other roles than another node: {roles:?}, {first:?}"));
        }
    }
    first.map(|_| ()).ok_or_else(|| "no node is running".into())
}

fn serves(entry: &NodeEntry, cluster: &Cluster) -> bool {
    cluster.index(&entry.id).is_some_and(|index| cluster.nodes[index].is_up())
}

fn query(node: &Server, args: &[&str]) -> Result<String, String> {
    Ok(node.query(args)?.as_str_lossy().into_owned())
}
