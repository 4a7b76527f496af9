//! What is imported gives the verdicts that the original gives, on trees of all kinds.

use std::fmt::Write as _;

use super::import_envoy;
use crate::config::{Config, DescriptorAction, SettingSources};

/// A descriptor of the original: key, value, its limit's number if it has one, and what is below.
#[derive(Debug)]
struct Node {
    key: &'static str,
    value: &'static str,
    limit: Option<u32>,
    below: Vec<Node>,
}

/// Small numbers that look as if they came by chance.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Longer wildcards before shorter ones: their order matters there, and there is a warning of it.
const ENTRIES: [(&str, &str); 6] = [("a", "x"), ("a", "xy"), ("a", "xy*"), ("a", "x*"), ("a", ""), ("b", "")];

fn tree(dice: &mut Dice, depth: u64, number: &mut u32) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (key, value) in ENTRIES {
        if dice.throw(2) == 0 {
            continue;
        }
        *number += 1;
        let limit = (dice.throw(3) > 0).then_some(*number);
        let below = if depth > 0 { tree(dice, depth - 1, number) } else { Vec::new() };
        nodes.push(Node { key, value, limit, below });
    }
    nodes
}

fn write(nodes: &[Node], indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    for node in nodes {
        writeln!(out, "{pad}- key: {}", node.key).expect("it is a string");
        if !node.value.is_empty() {
            writeln!(out, "{pad}  value: \"{}\"", node.value).expect("it is a string");
        }
        if let Some(limit) = node.limit {
            writeln!(out, "{pad}  rate_limit: {{unit: day, requests_per_unit: {limit}}}").expect("it is a string");
        }
        if !node.below.is_empty() {
            writeln!(out, "{pad}  descriptors:").expect("it is a string");
            write(&node.below, indent + 4, out);
        }
    }
}

/// The limit that the original would find: one way down, never back.
fn original(nodes: &[Node], entries: &[(&str, &str)]) -> Option<u32> {
    let [(key, value), rest @ ..] = entries else { return None };
    let of_key = || nodes.iter().filter(|node| node.key == *key);
    let wild = |node: &&Node| node.value.strip_suffix('*').is_some_and(|start| value.starts_with(start));
    let exact = of_key().find(|node| !node.value.is_empty() && node.value == *value);
    let taken = exact.or_else(|| of_key().find(wild)).or_else(|| of_key().find(|node| node.value.is_empty()))?;
    if rest.is_empty() { taken.limit } else { original(&taken.below, rest) }
}

#[test]
fn an_import_gives_the_verdicts_of_the_original_wherever_it_does_not_warn() {
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
        let nodes = tree(&mut Dice(seed), seed % 3, &mut 0);
        let mut yaml = "domain: d\ndescriptors:\n".to_owned();
        write(&nodes, 2, &mut yaml);
        let imported = import_envoy("t.yaml", &yaml).expect("the tree is right");
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
