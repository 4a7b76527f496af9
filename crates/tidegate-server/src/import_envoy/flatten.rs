//! A tree of descriptors as a list of rules.
//!
//! envoyproxy/ratelimit goes down its tree by one way: at each level the exact value, else the first wildcard that fits, else the
//! key alone, and if there is nothing below the one it took, there is no limit. Our rules are tried from the most specific to the
//! least, so a descriptor that finds nothing under the one would find a rule under another. Where that could happen, a rule
//! that says `unlimited` is added in front of it; where that can't be said by a rule, there is a warning.

use std::collections::HashSet;

use super::yaml::{Node, RateLimit};
use crate::config::EntryMatch;

/// A rule of a flat list.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) entries: Vec<EntryMatch>,
    pub(super) outcome: Outcome,
}

/// What a rule comes to.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// A limit, as text, watched only or enforced, and what it was called.
    Limit { limit: String, shadow: bool, name: String },
    /// It is let through, and why.
    Unlimited(&'static str),
    /// It is denied.
    Denied,
}

/// How the entry names of a path are written in warnings.
fn shown(entries: &[EntryMatch]) -> String {
    entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Turns all descriptors of a domain into rules.
pub(super) fn flatten(nodes: &[Node], warnings: &mut Vec<String>) -> Result<Vec<Rule>, String> {
    level(nodes, &[], warnings)
}

/// The rules of one level and of all below it; `above` is the path to it.
fn level(nodes: &[Node], above: &[EntryMatch], warnings: &mut Vec<String>) -> Result<Vec<Rule>, String> {
    let mut seen = HashSet::new();
    let mut all: Vec<(EntryMatch, Vec<Rule>)> = Vec::new();
    for node in nodes {
        let entry = entry(node, above, warnings)?;
        let path = [above, std::slice::from_ref(&entry)].concat();
        if !seen.insert(entry.to_string()) {
            return Err(format!("`{}` is there twice: keep one of them", shown(&path)));
        }
        let mut rules = Vec::new();
        lost(node, &path, warnings);
        if let Some(limit) = &node.rate_limit {
            let outcome = outcome(limit, node.shadow_mode, &path, warnings)?;
            rules.push(Rule { entries: path.clone(), outcome });
        } else if node.descriptors.is_empty() {
            rules.push(Rule { entries: path.clone(), outcome: Outcome::Unlimited("it has no limit there") });
        }
        rules.extend(level(&node.descriptors, &path, warnings)?);
        all.push((entry, rules));
    }
    wildcards_in_order(&all, above, warnings);
    let shields: Vec<Vec<Rule>> = all.iter().map(|one| shields(one, &all, above.len(), warnings)).collect();
    Ok(all.into_iter().zip(shields).flat_map(|((_, rules), shields)| rules.into_iter().chain(shields)).collect())
}

fn entry(node: &Node, above: &[EntryMatch], warnings: &mut Vec<String>) -> Result<EntryMatch, String> {
    let (key, value) = (&node.key.0, &node.value.0);
    if key.is_empty() {
        let place = if above.is_empty() { "the top".to_owned() } else { format!("`{}`", shown(above)) };
        return Err(format!("a descriptor below {place} has an empty key"));
    }
    if key.contains('=') {
        return Err(format!("the key `{key}` has a `=`, which separates key and value here: rename it in Envoy, too"));
    }
    if value.is_empty() {
        if key.ends_with('*') {
            warnings
                .push(format!("the key `{key}` ends in `*`: here only values can, so it is taken as it is written"));
        }
        return Ok(EntryMatch::Any(key.clone()));
    }
    Ok(match value.strip_suffix('*') {
        Some(start) => {
            if start.contains('*') {
                let message = "has a second `*`: here, only the one at its end stands for anything";
                warnings.push(format!("`{key}={value}` {message}"));
            }
            EntryMatch::Prefix(key.clone(), start.to_owned())
        }
        None => EntryMatch::Exact(key.clone(), value.clone()),
    })
}

/// Warns of what a descriptor has that is not carried over.
fn lost(node: &Node, path: &[EntryMatch], warnings: &mut Vec<String>) {
    let mut warn = |what: &str| warnings.push(format!("`{}`: {what}", shown(path)));
    if node.detailed_metric || node.value_to_metric {
        warn("metrics by value are not carried over: metrics here are by policy, so that callers can't multiply them");
    }
    if node.quota_mode {
        warn("`quota_mode` is not carried over: the limit is enforced; use mode = \"shadow\" to watch only");
    }
    if node.share_threshold {
        warn("`share_threshold` is not carried over: every value has the limit for itself");
    }
    if node.shadow_mode && node.rate_limit.is_none() {
        warn("`shadow_mode` without a limit says nothing there, and is left out");
    }
    for replaced in node.rate_limit.iter().flat_map(|limit| &limit.replaces) {
        let name = &replaced.name.0;
        warn(&format!("it replaces `{name}` there; here both limits apply to a request that has both descriptors"));
    }
}

fn outcome(
    limit: &RateLimit,
    shadow: bool,
    path: &[EntryMatch],
    warnings: &mut Vec<String>,
) -> Result<Outcome, String> {
    let unit = limit.unit.0.to_lowercase();
    if limit.unlimited {
        if !unit.is_empty() {
            return Err(format!("`{}` is unlimited and has a unit: keep one of them", shown(path)));
        }
        return Ok(Outcome::Unlimited("it is unlimited there"));
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
            return Err(format!("`{}` has the unit `{}`: use {known}", shown(path), limit.unit.0));
        }
    };
    Ok(match (limit.requests_per_unit, shadow) {
        (0, false) => Outcome::Denied,
        (0, true) => {
            let message = "a limit of 0 that is only watched lets everything through, and is not counted here";
            warnings.push(format!("`{}`: {message}", shown(path)));
            Outcome::Unlimited("it has a limit of 0 there that is only watched")
        }
        (max, _) => Outcome::Limit { limit: format!("{max}/{window}"), shadow, name: limit.name.0.clone() },
    })
}

/// Warns where the wildcard that is written first is not the longer one.
fn wildcards_in_order(all: &[(EntryMatch, Vec<Rule>)], above: &[EntryMatch], warnings: &mut Vec<String>) {
    for (place, (later, _)) in all.iter().enumerate() {
        let EntryMatch::Prefix(..) = later else { continue };
        for (earlier, _) in all[..place].iter().filter(|(earlier, _)| covers(earlier, later)) {
            let EntryMatch::Prefix(..) = earlier else { continue };
            let path = shown(&[above, std::slice::from_ref(later)].concat());
            warnings
                .push(format!("`{path}` never applies there, since `{earlier}` comes first; here the longer one wins"));
        }
    }
}

/// Rules that keep what goes into `one` there from going into a less specific sibling here.
fn shields(
    one: &(EntryMatch, Vec<Rule>),
    all: &[(EntryMatch, Vec<Rule>)],
    depth: usize,
    warnings: &mut Vec<String>,
) -> Vec<Rule> {
    let (entry, own) = one;
    let mut shields: Vec<Rule> = Vec::new();
    let siblings = all.iter().filter(|(other, _)| other != entry && covers(other, entry));
    for rule in siblings.flat_map(|(_, rules)| rules) {
        let tail = &rule.entries[depth + 1..];
        let of_own = |own: &Rule| own.entries[depth + 1..].to_vec();
        let tails: Vec<Vec<EntryMatch>> = own.iter().chain(&shields).map(of_own).collect();
        if tails.iter().any(|own| all_cover(own, tail)) {
            continue;
        }
        let mut entries = rule.entries.clone();
        entries[depth] = entry.clone();
        if tails.iter().any(|own| meet(own, tail) && goes_before(tail, own)) {
            let message = "a descriptor that finds no limit below it there may find one here, at";
            warnings.push(format!("`{}`: {message} `{}`", shown(&entries[..=depth]), shown(&rule.entries)));
            continue;
        }
        shields.push(Rule { entries, outcome: Outcome::Unlimited("there, nothing is looked for elsewhere") });
    }
    shields
}

/// Whether everything that fits the second fits the first, too.
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

/// Whether some descriptor fits both.
fn meet(a: &[EntryMatch], b: &[EntryMatch]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| covers(a, b) || covers(b, a))
}

/// Whether the first is tried before the second.
fn goes_before(a: &[EntryMatch], b: &[EntryMatch]) -> bool {
    let differing = a.iter().zip(b).find(|(a, b)| a != b);
    differing.is_some_and(|(a, b)| covers(b, a))
}
