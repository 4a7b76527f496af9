//! [`Sentinel`]: a master, its replicas, and the sentinels that watch them.

use std::time::Duration;

use crate::{builder::ServerBuilder, reply::Reply, server::Server, wait::wait_for};

/// Maximum time for discovery and for a failover.
const LIMIT: Duration = Duration::from_secs(30);

/// A master named `mymaster`, its replicas, and the sentinels that watch them.
///
/// A node keeps its index when its role changes. Node 0 is the first master. A node without a reply for 1.5 s counts as
/// failed.
#[derive(Debug)]
pub struct Sentinel {
    nodes: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinel {
    /// Starts all servers and waits until the sentinels know the replicas and each other.
    #[track_caller]
    pub fn start(replicas: usize, sentinels: usize) -> Self {
        // The default waits 5 s for more replicas to come.
        let node = || Server::builder().arg("repl-diskless-sync-delay", "0");
        let mut nodes = vec![node().start()];
        let master = nodes[0].port();
        nodes.extend((0..replicas).map(|_| node().arg("replicaof", &format!("127.0.0.1 {master}")).start()));
        // A sentinel queries the master for its replicas at its start, and then every ten seconds.
        let mut watched = Self { nodes, sentinels: Vec::new() };
        watched.settle();
        watched.sentinels = (0..sentinels).map(|_| start_sentinel(master, sentinels / 2 + 1)).collect();
        wait_for("the sentinels to know all servers", LIMIT, || {
            watched.sentinels.iter().try_for_each(|sentinel| knows(sentinel, replicas, sentinels - 1))
        });
        watched
    }

    /// The master and the replicas.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// `redis-sentinel://127.0.0.1:1,127.0.0.1:2/mymaster`
    pub fn url(&self) -> String {
        let addrs: Vec<_> = self.sentinels.iter().map(Server::addr).collect();
        format!("redis-sentinel://{}/mymaster", addrs.join(","))
    }

    /// Waits until every sentinel reports the same running master, and returns its index.
    #[track_caller]
    pub fn master(&self) -> usize {
        wait_for("a master", LIMIT, || self.agreed_master())
    }

    /// Kills the master (`SIGKILL`) and returns its index. [`Sentinel::wait_for_failover`] waits for the next master.
    #[track_caller]
    pub fn kill_master(&self) -> usize {
        let master = self.master();
        self.nodes[master].kill();
        master
    }

    /// Waits until another node is the master after the last one was killed or paused. Returns its index.
    ///
    /// The other running replicas follow it by then.
    #[track_caller]
    pub fn wait_for_failover(&self) -> usize {
        let master = self.master();
        self.settle();
        master
    }

    /// Waits until every running node is the master or linked with it.
    #[track_caller]
    pub fn settle(&self) {
        wait_for("the replicas to follow the master", LIMIT, || {
            let master = if self.sentinels.is_empty() { 0 } else { self.agreed_master()? };
            let replicas = self.nodes.iter().enumerate().filter(|&(index, node)| index != master && node.is_up());
            replicas.map(|(_, node)| node).try_for_each(|node| {
                let info = node.query(["INFO", "replication"])?;
                let info = info.as_str_lossy();
                let follows = info.contains(&format!("master_port:{}\r", self.nodes[master].port()));
                let linked = info.contains("master_link_status:up");
                if follows && linked { Ok(()) } else { Err(format!("{node:?} does not follow: {info}")) }
            })
        });
    }

    fn agreed_master(&self) -> Result<usize, String> {
        let mut ports = Vec::new();
        for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.is_up()) {
            let addr = sentinel.query(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"])?;
            ports.push(addr.array()[1].as_str_lossy().into_owned());
        }
        ports.dedup();
        let [port] = &ports[..] else { return Err(format!("the sentinels name ports {ports:?}")) };
        let index = self.nodes.iter().position(|node| node.port().to_string() == *port);
        let index = index.ok_or_else(|| format!("no node has port {port}"))?;
        if !self.nodes[index].is_up() {
            return Err(format!("the sentinels still name node {index}, which is not running"));
        }
        let role = self.nodes[index].query(["ROLE"])?;
        match &*role.array()[0].as_str_lossy() {
            "master" => Ok(index),
            role => Err(format!("node {index} is a {role}")),
        }
    }
}

fn start_sentinel(master: u16, quorum: usize) -> Server {
    ServerBuilder::sentinel()
        .arg("sentinel", &format!("monitor mymaster 127.0.0.1 {master} {quorum}"))
        .arg("sentinel", "down-after-milliseconds mymaster 1500")
        .arg("sentinel", "failover-timeout mymaster 2000")
        .start()
}

/// Checks that a sentinel knows this number of healthy replicas and other sentinels.
fn knows(sentinel: &Server, replicas: usize, others: usize) -> Result<(), String> {
    for (list, count) in [("REPLICAS", replicas), ("SENTINELS", others)] {
        let known = sentinel.query(["SENTINEL", list, "mymaster"])?;
        let healthy = known.array().iter().filter(|one| is_healthy(one.array())).count();
        if healthy != count {
            return Err(format!("{sentinel:?} knows {healthy} of {count} healthy {list}"));
        }
    }
    let quorum = sentinel.query(["SENTINEL", "CKQUORUM", "mymaster"])?;
    if quorum.is_error() { Err(format!("{quorum:?}")) } else { Ok(()) }
}

/// Whether the flags report no problem. The fields are alternating names and values. A replica must be linked with its
/// master, too.
fn is_healthy(fields: &[Reply]) -> bool {
    fields.chunks_exact(2).all(|field| match (&*field[0].as_str_lossy(), &*field[1].as_str_lossy()) {
        ("flags", flags) => matches!(flags, "slave" | "sentinel"),
        ("master-link-status", status) => status == "ok",
        _ => true,
    })
}
