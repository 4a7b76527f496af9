//! Sample responses of a service for tests.

use serde_json::{Value, json};

use super::live_stream::LiveUpdate;

/// The time of the samples.
pub(crate) const NOW_MS: u64 = 1_794_842_458_000;

pub(crate) fn overview() -> Value {
    let wave = |high: u64| (0..300_u64).map(|second| high * (second % 60) / 60).collect::<Vec<_>>();
    json!({
        "now_ms": NOW_MS, "started_ms": NOW_MS - 7_980_000, "version": "0.1.0", "configuration_error": null,
        "store": {
            "kind": "memory", "answers": true, "keys": 100_000, "max_keys": 1_000_000, "bytes": 6_400_000,
            "max_bytes": 512_000_000, "evicted": 0, "no_room": 0, "nodes": [], "may_evict": null, "degraded": null, "errors": []
        },
        "last": {"seconds": 10, "decisions": 1234, "per_second": 123.4, "denied": 34, "denied_share": 0.027_55, "p50_us": 12.3, "p99_us": 1830.0},
        "policies": [
            policy("(limits)", &Value::Null, &[], [4, 0, 0, 0, 0]),
            policy("batch", &json!("enforce"), &["1000/1h", "10000/1d"], [0, 0, 0, 0, 0]),
            policy("login", &json!("shadow"), &["5/1m"], [100, 0, 0, 0, 30]),
            policy("public-api", &json!("enforce"), &["60/1m"], [1066, 31, 2, 1, 0]),
        ],
        "history": {
            "from_ms": NOW_MS - 300_000, "step_ms": 1000, "p50_us": vec![12.3; 300], "p99_us": vec![80.0; 300],
            "policies": [
                {"name": "login", "allowed": wave(10), "shadow": wave(3)},
                {"name": "public-api", "allowed": wave(120), "limited": wave(12)},
            ]
        },
        "journal": [
            {"id": 1, "at_ms": NOW_MS - 7_980_000, "kind": "started", "text": "the service has started", "by": null},
            {"id": 2, "at_ms": NOW_MS - 60_000, "kind": "ban", "text": "ban of alice under public-api for 2h", "by": "127.0.0.1"},
        ]
    })
}

fn policy(name: &str, mode: &Value, limits: &[&str], counts: [u64; 5]) -> Value {
    let [allowed, limited, impossible, store_unavailable, shadow] = counts;
    json!({
        "name": name, "mode": mode, "limits": limits, "allowed": allowed, "limited": limited,
        "impossible": impossible, "store_unavailable": store_unavailable, "shadow": shadow
    })
}

pub(crate) fn hits() -> Value {
    json!({
        "policy": "public-api", "now_ms": NOW_MS, "since_ms": NOW_MS - 400_000, "counters": 128, "denials": 5021,
        "sampled": false, "error_at_most": 39, "keys": "plain",
        "hardest": [
            {"key": "alice", "label": "alice", "denials": 4120, "error": 0},
            {"key": ["bob", "/x"], "label": "bob · /x", "denials": 120, "error": 2},
        ],
        "nearest": [
            {"key": "carol", "label": "carol", "limit": "60/1m", "used": 60, "capacity": 60, "remaining": 0, "retry_after_ms": 1200, "reset_after_ms": 30000},
            {"key": "dave", "label": "dave", "limit": "60/1m", "used": 55, "capacity": 60, "remaining": 5, "retry_after_ms": null, "reset_after_ms": 30000},
        ]
    })
}

/// Sets what a node decides by leases.
pub(crate) fn add_leases(overview: &mut Value) {
    overview["store"]["leases"] = json!({
        "admitted": 9_000, "denied": 500, "asked": 500, "open": 1, "left": 120, "remembered": 3,
        "keys": [
            {"policy": "public-api", "keys": "plain", "key": "alice", "label": "alice", "units": 500, "left": 120,
             "ends_in_ms": 132, "admitted": 8_000, "denied": 0, "denies_for_ms": null},
            {"policy": "public-api", "keys": "hidden", "key": null, "label": "", "units": 0, "left": 0,
             "ends_in_ms": null, "admitted": 900, "denied": 500, "denies_for_ms": 20},
            {"policy": "login", "keys": "plain", "key": "\u{1b}[2J", "label": "\u{1b}[2J", "units": 7, "left": 7,
             "ends_in_ms": 1_500, "admitted": 100, "denied": 0, "denies_for_ms": null},
        ]
    });
}

pub(crate) fn overview_update() -> LiveUpdate {
    overview_with(|_| {})
}

pub(crate) fn overview_with(change: impl FnOnce(&mut Value)) -> LiveUpdate {
    let mut overview = overview();
    change(&mut overview);
    LiveUpdate::Overview(serde_json::from_value(overview).expect("an overview"))
}

/// Returns the next second with a change; `login` is its first policy.
pub(crate) fn tick_update(change: impl FnOnce(&mut Value)) -> LiveUpdate {
    let mut tick = overview();
    tick["point"] = json!({"at_ms": NOW_MS, "policies": []});
    tick["policies"].as_array_mut().expect("a list").swap(0, 2);
    change(&mut tick);
    LiveUpdate::Tick(serde_json::from_value(tick).expect("a tick"))
}

pub(crate) fn hits_update() -> LiveUpdate {
    hits_with(|_| {})
}

pub(crate) fn hits_with(change: impl FnOnce(&mut Value)) -> LiveUpdate {
    let mut hits = hits();
    change(&mut hits);
    LiveUpdate::Hits(serde_json::from_value(hits).expect("hits"))
}
