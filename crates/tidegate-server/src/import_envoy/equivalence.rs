//! Tests that an imported configuration decides like the original, on generated trees.

use serde_json::{Value, json};

use super::import_envoy;
use crate::config::{Config, DescriptorAction, SettingSources};

/// A descriptor of the original. Its limit is a number that identifies it.
#[derive(Debug)]
struct TestNode {
    key: &'static str,
    value: &'static str,
    limit: Option<u32>,
    children: Vec<TestNode>,
}

/// A pseudo-random generator of small numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Longer wildcards come first, because the opposite order gives a warning.
const ENTRIES: [(&str, &str); 6] = [("a", "x"), ("a", "xy"), ("a", "xy*"), ("a", "x*"), ("a", ""), ("b", "")];

fn tree(random: &mut Random, depth: u64, number: &mut u32) -> Vec<TestNode> {
    let mut nodes = Vec::new();
    for (key, value) in ENTRIES {
        if random.below(2) == 0 {
            continue;
        }
        *number += 1;
        let limit = (random.below(3) > 0).then_some(*number);
        let children = if depth > 0 { tree(random, depth - 1, number) } else { Vec::new() };
        nodes.push(TestNode { key, value, limit, children });
    }
    nodes
}

/// Returns descriptors as JSON, which is YAML, too.
fn descriptors_of(nodes: &[TestNode]) -> Value {
    let limit = |max: u32| json!({ "unit": "day", "requests_per_unit": max });
    let descriptor = |node: &TestNode| {
        let (limit, children) = (node.limit.map(limit), descriptors_of(&node.children));
        json!({ "key": node.key, "value": node.value, "rate_limit": limit, "descriptors": children })
    };
    nodes.iter().map(descriptor).collect()
}

/// Returns the limit that the original finds: it descends without backtracking.
fn original(nodes: &[TestNode], entries: &[(&str, &str)]) -> Option<u32> {
    let [(key, value), rest @ ..] = entries else { return None };
    let of_key = || nodes.iter().filter(|node| node.key == *key);
    let wild = |node: &&TestNode| node.value.strip_suffix('*').is_some_and(|start| value.starts_with(start));
    let exact = of_key().find(|node| !node.value.is_empty() && node.value == *value);
    let taken = exact.or_else(|| of_key().find(wild)).or_else(|| of_key().find(|node| node.value.is_empty()))?;
    if rest.is_empty() { taken.limit } else { original(&taken.children, rest) }
}

#[test]
fn an_import_without_warnings_decides_like_the_original() {
    let values = [("a", "x"), ("a", "xy"), ("a", "xyz"), ("a", "xz"), ("a", "o"), ("b", "x")];
    let mut descriptors: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
    for length in 0..3 {
        let longer: Vec<_> = descriptors
            .iter()
            .filter(|one| one.len() == length)
            .flat_map(|one| values.map(|entry| [one.as_slice(), &[entry]].concat()))
            .collect();
        descriptors.extend(longer);
    }
    let (mut compared, mut warned) = (0, 0);
    for seed in 0..400 {
        let nodes = tree(&mut Random(seed), seed % 3, &mut 0);
        let yaml = json!({ "domain": "d", "descriptors": descriptors_of(&nodes) }).to_string();
        let imported = import_envoy("t.yaml", &yaml).expect("a valid tree");
        let config = Config::parse("t.toml", &imported.toml, &SettingSources::default());
        let policies = config.unwrap_or_else(|error| panic!("{error}\n{}", imported.toml)).policies;
        if !imported.warnings.is_empty() {
            warned += 1;
            continue;
        }
        for entries in descriptors.iter().filter(|entries| !entries.is_empty()) {
            let bytes: Vec<_> = entries.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            let ours = policies.descriptor("d", &bytes).and_then(|verdict| match verdict {
                DescriptorAction::Policy(name) => policies.get(name).map(|found| found.policy.limits()[0].max()),
                _ => None,
            });
            let theirs = original(&nodes, entries).map(u64::from);
            assert_eq!(ours, theirs, "{entries:?}\n{yaml}\n{}", imported.toml);
            compared += 1;
        }
    }
    assert!(compared > 10_000 && warned < 200, "{compared} compared, {warned} trees with a warning");
}
