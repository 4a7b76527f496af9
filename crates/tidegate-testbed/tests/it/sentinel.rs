use tidegate_testbed::Sentinel;

#[test]
fn sentinels_replace_a_master_that_is_killed() {
    let watched = Sentinel::start(1, 3);
    assert!(watched.url().ends_with("/mymaster"));
    assert_eq!(watched.master(), 0);
    let mut wire = watched.nodes()[0].wire();
    wire.command(["SET", "a", "b"]).expect_ok();
    assert_eq!(wire.command(["WAIT", "1", "5000"]).integer(), 1);

    assert_eq!(watched.kill_master(), 0);
    assert_eq!(watched.wait_for_failover(), 1);
    assert_eq!(watched.nodes()[1].wire().command(["GET", "a"]).as_str_lossy(), "b");

    // The old master comes back, and one of the two follows the other.
    watched.nodes()[0].restart();
    watched.settle();
    let master = watched.master();
    let info = watched.nodes()[1 - master].wire().command(["INFO", "replication"]);
    assert!(info.as_str_lossy().contains("role:slave"), "{info:?}");
}
