use tidegate_testbed::{Cluster, Reply, Server, Wire};

fn error_code(reply: &Reply) -> &str {
    reply.error().split(' ').next().unwrap()
}

/// The keys of a slot, on one node.
fn count(node: &Server, slot: u16) -> i64 {
    node.wire().command(["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]).integer()
}

fn fill(wire: &mut Wire, tag: &str) {
    for n in 0..25 {
        wire.command(["SET", &format!("{{{tag}}}{n}"), "x"]).expect_ok();
    }
}

#[test]
fn a_cluster_moves_a_slot_and_survives_failovers() {
    let cluster = Cluster::start(3, 1);
    assert_eq!(cluster.nodes().len(), 6);
    assert_eq!((cluster.master_of_slot(0), cluster.master_of_slot(16_383)), (0, 2));
    assert_eq!(cluster.replicas_of(1), [4]);

    let slot = cluster.key_slot("{tag}1");
    let from = cluster.master_of_slot(slot);
    let to = (from + 1) % 3;
    fill(&mut cluster.nodes()[from].wire(), "tag");

    // During the move, both nodes have keys, and the source redirects clients for keys that it no longer has.
    let moving = cluster.begin_move(slot, to);
    assert_eq!((moving.from(), moving.to()), (from, to));
    assert_eq!(moving.move_keys(10), 10);
    assert_eq!((count(&cluster.nodes()[from], slot), count(&cluster.nodes()[to], slot)), (15, 10));
    assert_eq!(error_code(&cluster.nodes()[from].wire().command(["GET", "{tag}none"])), "ASK");
    moving.finish();
    assert_eq!(cluster.master_of_slot(slot), to);
    assert_eq!((count(&cluster.nodes()[from], slot), count(&cluster.nodes()[to], slot)), (0, 25));
    assert_eq!(error_code(&cluster.nodes()[from].wire().command(["GET", "{tag}1"])), "MOVED");

    // Back again, in one step.
    cluster.move_slot(slot, from, 7);
    assert_eq!((cluster.master_of_slot(slot), count(&cluster.nodes()[from], slot)), (from, 25));
    cluster.nodes()[from].wire().command(["WAIT", "1", "5000"]);

    let failover = cluster.failover_of(from);
    assert_eq!(failover.new_master, from + 3);
    assert_eq!(cluster.master_of_slot(slot), from + 3);
    assert_eq!(count(&cluster.nodes()[from + 3], slot), 25);
    println!("a failover took {:?}", failover.took);

    cluster.nodes()[from].restart();
    cluster.settle();
    assert_eq!(cluster.replicas_of(from + 3), [from]);
    let back = cluster.graceful_failover(from);
    assert_eq!(cluster.master_of_slot(slot), from);
    println!("a graceful one took {:?}", back.took);
}

#[test]
fn a_cluster_of_one_node_serves_every_slot() {
    let cluster = Cluster::start(1, 0);
    cluster.nodes()[0].wire().command(["SET", "a", "b"]).expect_ok();
    assert_eq!(cluster.url(), format!("redis-cluster://{}", cluster.nodes()[0].addr()));
}
