//! What a node knows of the others, by `CLUSTER NODES`.

use std::ops::RangeInclusive;

use super::Cluster;
use crate::server::Server;

/// What a node says of one node.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: String,
    pub(super) flags: String,
    pub(super) myself: bool,
    /// The id of its master, if it is a replica.
    pub(super) master: Option<String>,
    pub(super) epoch: u64,
    connected: bool,
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

impl Line {
    pub(super) fn has_slot(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.flags.split(',').any(|has| has == flag)
    }

    /// Whether the node is known and believed to be well.
    fn is_well(&self) -> bool {
        let unwell = ["fail", "fail?", "handshake", "noaddr"];
        (self.connected || self.myself) && !unwell.iter().any(|flag| self.has_flag(flag))
    }

    /// `id ip:port@bus flags master ping-sent pong-received epoch link slot…`
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<_> = text.split(' ').collect();
        let [id, _, flags, master, _, _, epoch, state, slots @ ..] = &fields[..] else { return None };
        let mut line = Self {
            id: (*id).to_owned(),
            flags: (*flags).to_owned(),
            myself: false,
            master: (*master != "-").then(|| (*master).to_owned()),
            epoch: epoch.parse().ok()?,
            connected: *state == "connected",
            slots: Vec::new(),
        };
        line.myself = line.has_flag("myself");
        // Slots on the move stand in brackets, beside the range that they belong to.
        for slots in slots.iter().filter(|slots| !slots.starts_with('[')) {
            let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
            line.slots.push(first.parse().ok()?..=last.parse().ok()?);
        }
        Some(line)
    }
}

/// What this node knows, in the order of the ids.
pub(super) fn of(node: &Server) -> Result<Vec<Line>, String> {
    let text = query(node, &["CLUSTER", "NODES"])?;
    let lines = text.lines().map(|line| Line::parse(line).ok_or_else(|| format!("what does this mean? {line}")));
    let mut lines = lines.collect::<Result<Vec<_>, _>>()?;
    lines.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(lines)
}

/// Whether every node of the cluster is in the view, and every one that is up is well there.
pub(super) fn all_known(view: &[Line], cluster: &Cluster) -> Result<(), String> {
    for (id, node) in cluster.ids.iter().zip(&cluster.nodes) {
        match view.iter().find(|line| line.id == *id) {
            None => return Err(format!("{node:?} is not known to everyone")),
            Some(line) if node.is_up() && !line.is_well() => return Err(format!("{node:?} is seen as {}", line.flags)),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Whether the cluster is whole in the eyes of every node that is up.
pub(super) fn agreement(cluster: &Cluster) -> Result<(), String> {
    let mut first = None;
    for (_, node) in cluster.up() {
        let info = query(node, &["CLUSTER", "INFO"])?;
        if !info.contains("cluster_state:ok") {
            return Err(format!("to {node:?} the cluster is not ok"));
        }
        let view = of(node)?;
        all_known(&view, cluster)?;
        if let Some(line) = view.iter().find(|line| !line.slots.is_empty() && !serves(line, cluster)) {
            return Err(format!("to {node:?} slots belong to {}, which is not up", line.id));
        }
        let mine = view.iter().find(|line| line.myself);
        let linked = || Ok::<_, String>(query(node, &["INFO", "replication"])?.contains("master_link_status:up"));
        if mine.is_some_and(|me| me.master.is_some()) && !linked()? {
            return Err(format!("{node:?} is not linked with its master"));
        }
        let roles: Vec<_> = view.into_iter().map(|line| (line.id, line.master, line.slots)).collect();
        if *first.get_or_insert_with(|| roles.clone()) != roles {
            return Err(format!("{node:?} sees other roles than another: {roles:?}, {first:?}"));
        }
    }
    first.map(|_| ()).ok_or_else(|| "no node is up".into())
}

fn serves(line: &Line, cluster: &Cluster) -> bool {
    cluster.index(&line.id).is_some_and(|index| cluster.nodes[index].is_up())
}

fn query(node: &Server, args: &[&str]) -> Result<String, String> {
    Ok(node.ask(args)?.as_str_lossy().into_owned())
}
