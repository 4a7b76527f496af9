use tidegate_testbed::{Cluster, Reply, Server, Wire};

fn error_code(reply: &Reply) -> &str {
    reply.error().split(' ').next().unwrap()
}

/// The keys of a slot, on one node.
fn count(node: &Server, slot: u16) -> i64 {
    node.wire().command(["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]).integer()
}

/// Whether one node is a replica of another.
fn follows(replica: &Server, master: &Server) -> bool {
    let role = replica.wire().command(["ROLE"]);
    role.array()[0].as_str_lossy() == "slave" && role.array()[2].integer() == i64::from(master.port())
}

fn fill(wire: &mut Wire, tag: &str) {
    for n in 0..25 {
        wire.command(["SET", &format!("{{{tag}}}{n}"), "x"]).expect_ok();
    }
}

#[test]
fn a_cluster_moves_a_slot_and_survives_a_failover() {
    let cluster = Cluster::start(3, 1);
    assert_eq!(cluster.nodes().len(), 6);
    assert_eq!((cluster.master_of_slot(0), cluster.master_of_slot(16_383)), (0, 2));
    assert!(follows(&cluster.nodes()[4], &cluster.nodes()[1]));

    let slot = cluster.key_slot("{tag}1");
    let from = cluster.master_of_slot(slot);
    let to = (from + 1) % 3;
    fill(&mut cluster.nodes()[from].wire(), "tag");

    // During the move, both nodes have keys, and the source redirects clients for keys that it no longer has.
    let moving = cluster.begin_move(slot, to);
    assert_eq!(moving.move_keys(10), 10);
    assert_eq!((count(&cluster.nodes()[from], slot), count(&cluster.nodes()[to], slot)), (15, 10));
    assert_eq!(error_code(&cluster.nodes()[from].wire().command(["GET", "{tag}none"])), "ASK");
    moving.finish();
    assert_eq!(cluster.master_of_slot(slot), to);
    assert_eq!((count(&cluster.nodes()[from], slot), count(&cluster.nodes()[to], slot)), (0, 25));
    assert_eq!(error_code(&cluster.nodes()[from].wire().command(["GET", "{tag}1"])), "MOVED");

    // Back again, in one step.
    cluster.begin_move(slot, from).finish();
    assert_eq!((cluster.master_of_slot(slot), count(&cluster.nodes()[from], slot)), (from, 25));
    cluster.nodes()[from].wire().command(["WAIT", "1", "5000"]);

    cluster.nodes()[from].kill();
    cluster.settle();
    assert_eq!(cluster.master_of_slot(slot), from + 3);
    assert_eq!(count(&cluster.nodes()[from + 3], slot), 25);

    cluster.nodes()[from].restart();
    cluster.settle();
    assert!(follows(&cluster.nodes()[from], &cluster.nodes()[from + 3]));
}

#[test]
fn a_cluster_of_one_node_serves_every_slot() {
    let cluster = Cluster::start(1, 0);
    cluster.nodes()[0].wire().command(["SET", "a", "b"]).expect_ok();
    assert_eq!(cluster.url(), format!("redis-cluster://{}", cluster.nodes()[0].addr()));
}
