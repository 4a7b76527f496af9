use tidegate_testbed::Sentinel;

#[test]
fn sentinels_replace_a_killed_master() {
    let sentinel = Sentinel::start(1, 3);
    assert!(sentinel.url().ends_with("/mymaster"));
    assert_eq!(sentinel.master(), 0);
    let mut wire = sentinel.nodes()[0].wire();
    wire.command(["SET", "a", "b"]).expect_ok();
    assert_eq!(wire.command(["WAIT", "1", "5000"]).integer(), 1);

    assert_eq!(sentinel.kill_master(), 0);
    assert_eq!(sentinel.wait_for_failover(), 1);
    assert_eq!(sentinel.nodes()[1].wire().command(["GET", "a"]).as_str_lossy(), "b");

    // The old master restarts, and one of the two follows the other.
    sentinel.nodes()[0].restart();
    sentinel.settle();
    let master = sentinel.master();
    let info = sentinel.nodes()[1 - master].wire().command(["INFO", "replication"]);
    assert!(info.as_str_lossy().contains("role:slave"), "{info:?}");
}
