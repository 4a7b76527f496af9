//! Converts a tree of descriptors into a list of rules.
//!
//! envoyproxy/ratelimit descends its tree without backtracking. At each level it takes the exact value, else the first matching
//! wildcard, else the key without a value. If the chosen node has no match below it, there is no limit. This service tries all
//! rules from the most to the least specific, so a rule under another node could match. Where that is possible, an `unlimited`
//! rule is added to prevent it. Where no such rule can be written, there is a warning.

use std::collections::HashSet;

use super::yaml::{Descriptor, RateLimit};
use crate::config::EntryMatch;

/// A rule of a flat list.
#[derive(Debug, Clone)]
pub(super) struct FlatRule {
    pub(super) entries: Vec<EntryMatch>,
    pub(super) effect: RuleEffect,
}

/// The effect of a rule.
#[derive(Debug, Clone)]
pub(super) enum RuleEffect {
    /// A limit as text, whether it is only in shadow mode, and its name in the original.
    Limit { limit: String, shadow: bool, name: String },
    /// Everything is admitted, for this reason.
    Unlimited(&'static str),
    /// Everything is denied.
    Denied,
}

/// Returns the text of a path for warnings.
fn path_text(entries: &[EntryMatch]) -> String {
    entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Converts all descriptors of a domain into rules.
pub(super) fn flatten(nodes: &[Descriptor], warnings: &mut Vec<String>) -> Result<Vec<FlatRule>, String> {
    level(nodes, &[], warnings)
}

/// Returns the rules of one level and of all levels below it. `above` is the path to this level.
fn level(nodes: &[Descriptor], above: &[EntryMatch], warnings: &mut Vec<String>) -> Result<Vec<FlatRule>, String> {
    let mut seen = HashSet::new();
    let mut all: Vec<(EntryMatch, Vec<FlatRule>)> = Vec::new();
    for node in nodes {
        let entry = entry(node, above, warnings)?;
        let path = [above, std::slice::from_ref(&entry)].concat();
        if !seen.insert(entry.to_string()) {
            return Err(format!("`{}` occurs twice: keep one of them", path_text(&path)));
        }
        let mut rules = Vec::new();
        warn_of_losses(node, &path, warnings);
        if let Some(limit) = &node.rate_limit {
            let effect = effect(limit, node.shadow_mode, &path, warnings)?;
            rules.push(FlatRule { entries: path.clone(), effect });
        } else if node.descriptors.is_empty() {
            rules.push(FlatRule {
                entries: path.clone(),
                effect: RuleEffect::Unlimited("the original has no limit for it"),
            });
        }
        rules.extend(level(&node.descriptors, &path, warnings)?);
        all.push((entry, rules));
    }
    check_wildcard_order(&all, above, warnings);
    let shields: Vec<Vec<FlatRule>> = all.iter().map(|one| shields(one, &all, above.len(), warnings)).collect();
    Ok(all.into_iter().zip(shields).flat_map(|((_, rules), shields)| rules.into_iter().chain(shields)).collect())
}

fn entry(node: &Descriptor, above: &[EntryMatch], warnings: &mut Vec<String>) -> Result<EntryMatch, String> {
    let (key, value) = (&node.key.0, &node.value.0);
    if key.is_empty() {
        let parent = if above.is_empty() { "the top".to_owned() } else { format!("`{}`", path_text(above)) };
        return Err(format!("a descriptor below {parent} has an empty key"));
    }
    if key.contains('=') {
        return Err(format!("the key `{key}` has a `=`, which separates key and value: rename it, also in Envoy"));
    }
    if value.is_empty() {
        if key.ends_with('*') {
            warnings
                .push(format!("the key `{key}` ends in `*`: only values can have wildcards, so the `*` is literal"));
        }
        return Ok(EntryMatch::Any(key.clone()));
    }
    Ok(match value.strip_suffix('*') {
        Some(start) => {
            if start.contains('*') {
                let message = "has a second `*`: only the trailing one is a wildcard";
                warnings.push(format!("`{key}={value}` {message}"));
            }
            EntryMatch::Prefix(key.clone(), start.to_owned())
        }
        None => EntryMatch::Exact(key.clone(), value.clone()),
    })
}

/// Warns of the properties of a descriptor that are not imported.
fn warn_of_losses(node: &Descriptor, path: &[EntryMatch], warnings: &mut Vec<String>) {
    let mut warn = |what: &str| warnings.push(format!("`{}`: {what}", path_text(path)));
    if node.detailed_metric || node.value_to_metric {
        warn("metrics by value are not imported: metrics are by policy, so that callers cannot create new ones");
    }
    if node.quota_mode {
        warn("`quota_mode` is not imported: the limit is enforced; use mode = \"shadow\" to observe only");
    }
    if node.share_threshold {
        warn("`share_threshold` is not imported: every value has its own count");
    }
    if node.shadow_mode && node.rate_limit.is_none() {
        warn("`shadow_mode` without a limit has no effect and is omitted");
    }
    for replaced in node.rate_limit.iter().flat_map(|limit| &limit.replaces) {
        let name = &replaced.name.0;
        warn(&format!(
            "it replaces `{name}` in the original; here both limits apply to a request with both descriptors"
        ));
    }
}

fn effect(
    limit: &RateLimit,
    shadow: bool,
    path: &[EntryMatch],
    warnings: &mut Vec<String>,
) -> Result<RuleEffect, String> {
    let unit = limit.unit.0.to_lowercase();
    if limit.unlimited {
        if !unit.is_empty() {
            return Err(format!("`{}` is unlimited and has a unit: keep one of them", path_text(path)));
        }
        return Ok(RuleEffect::Unlimited("the original declares it unlimited"));
    }
    let window = match unit.as_str() {
        "second" => "1s",
        "minute" => "1m",
        "hour" => "1h",
        "day" => "1d",
        "week" => "1w",
        "month" => "30d",
        "year" => "365d",
        _ => {
            let known = "second, minute, hour, day, week, month or year";
            return Err(format!("`{}` has the unit `{}`: use {known}", path_text(path), limit.unit.0));
        }
    };
    Ok(match (limit.requests_per_unit, shadow) {
        (0, false) => RuleEffect::Denied,
        (0, true) => {
            let message = "a limit of 0 in shadow mode admits everything and is not counted here";
            warnings.push(format!("`{}`: {message}", path_text(path)));
            RuleEffect::Unlimited("the original has a limit of 0 in shadow mode")
        }
        (max, _) => RuleEffect::Limit { limit: format!("{max}/{window}"), shadow, name: limit.name.0.clone() },
    })
}

/// Warns if a shorter wildcard comes before a longer one.
fn check_wildcard_order(all: &[(EntryMatch, Vec<FlatRule>)], above: &[EntryMatch], warnings: &mut Vec<String>) {
    for (position, (later, _)) in all.iter().enumerate() {
        let EntryMatch::Prefix(..) = later else { continue };
        for (earlier, _) in all[..position].iter().filter(|(earlier, _)| covers(earlier, later)) {
            let EntryMatch::Prefix(..) = earlier else { continue };
            let path = path_text(&[above, std::slice::from_ref(later)].concat());
            warnings
                .push(format!("`{path}` never applies in the original, because `{earlier}` comes first; here the longer one takes precedence"));
        }
    }
}

/// Returns `unlimited` rules that stop a less specific sibling from matching descriptors that the original sends to `one`.
fn shields(
    one: &(EntryMatch, Vec<FlatRule>),
    all: &[(EntryMatch, Vec<FlatRule>)],
    depth: usize,
    warnings: &mut Vec<String>,
) -> Vec<FlatRule> {
    let (entry, own) = one;
    let mut shields: Vec<FlatRule> = Vec::new();
    let siblings = all.iter().filter(|(other, _)| other != entry && covers(other, entry));
    for rule in siblings.flat_map(|(_, rules)| rules) {
        let tail = &rule.entries[depth + 1..];
        let of_own = |own: &FlatRule| own.entries[depth + 1..].to_vec();
        let tails: Vec<Vec<EntryMatch>> = own.iter().chain(&shields).map(of_own).collect();
        if tails.iter().any(|own| all_cover(own, tail)) {
            continue;
        }
        let mut entries = rule.entries.clone();
        entries[depth] = entry.clone();
        if tails.iter().any(|own| overlap(own, tail) && goes_before(tail, own)) {
            let message = "a descriptor without a limit in the original may have one here, at";
            warnings.push(format!("`{}`: {message} `{}`", path_text(&entries[..=depth]), path_text(&rule.entries)));
            continue;
        }
        shields.push(FlatRule {
            entries,
            effect: RuleEffect::Unlimited("the original does not backtrack to other nodes"),
        });
    }
    shields
}

/// Returns whether `general` matches everything that `special` matches.
fn covers(general: &EntryMatch, special: &EntryMatch) -> bool {
    match (general, special) {
        (EntryMatch::Any(a), EntryMatch::Any(b) | EntryMatch::Prefix(b, _) | EntryMatch::Exact(b, _)) => a == b,
        (EntryMatch::Prefix(a, start), EntryMatch::Prefix(b, value) | EntryMatch::Exact(b, value)) => {
            a == b && value.starts_with(start)
        }
        (EntryMatch::Exact(..), EntryMatch::Exact(..)) => general == special,
        _ => false,
    }
}

fn all_cover(general: &[EntryMatch], special: &[EntryMatch]) -> bool {
    general.len() == special.len() && general.iter().zip(special).all(|(general, special)| covers(general, special))
}

/// Returns whether some descriptor matches both.
fn overlap(a: &[EntryMatch], b: &[EntryMatch]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| covers(a, b) || covers(b, a))
}

/// Returns whether `a` is tried before `b`.
fn goes_before(a: &[EntryMatch], b: &[EntryMatch]) -> bool {
    let differing = a.iter().zip(b).find(|(a, b)| a != b);
    differing.is_some_and(|(a, b)| covers(b, a))
}
