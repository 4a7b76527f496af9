//! The rules as a file of ours.

use std::{collections::HashSet, fmt::Write as _};

use super::flatten::{Outcome, Rule};
use crate::config::EntryMatch;

/// The longest name that a policy can have.
const MAX_NAME: usize = 128;

/// Writes a configuration.
pub(super) fn write(origin: &str, domain: &super::yaml::Text, rules: &[Rule], warnings: &[String]) -> String {
    let domain = &domain.0;
    let mut out = format!("# Made from {}, a configuration of envoyproxy/ratelimit.\n", one_line(origin));
    out.push_str("# There, a count starts anew with every unit of time, so that twice the limit can pass around that moment. Here, no\n");
    out.push_str("# stretch of time of that length ever has more. For the old way, write algorithm = \"fixed_window\" in a policy.\n");
    if !warnings.is_empty() {
        out.push_str("#\n# Not the same as there:\n");
    }
    for warning in warnings {
        line(&mut out, &format!("# - {}", one_line(warning)));
    }
    let mut names = HashSet::new();
    for rule in rules {
        let descriptor: Vec<String> = rule.entries.iter().map(|entry| quoted(&entry.to_string())).collect();
        out.push('\n');
        let verdict = match &rule.outcome {
            Outcome::Limit { limit, shadow, name } => {
                if !name.is_empty() {
                    line(&mut out, &format!("# Called {} there.", one_line(name)));
                }
                let policy = unique(&policy_name(domain, &rule.entries), &mut names);
                line(&mut out, &format!("[policies.{}]\nlimits = [{}]", quoted(&policy), quoted(limit)));
                line(&mut out, "algorithm = \"sliding_log\"");
                if *shadow {
                    line(&mut out, "mode = \"shadow\"");
                }
                format!("policy = {}", quoted(&policy))
            }
            Outcome::Unlimited(why) => {
                line(&mut out, &format!("# Let through: {why}."));
                "unlimited = true".to_owned()
            }
            Outcome::Denied => {
                line(&mut out, "# Never let through: a limit of 0 there.");
                "deny = true".to_owned()
            }
        };
        line(&mut out, &format!("[[envoy]]\ndomain = {}", quoted(domain)));
        line(&mut out, &format!("descriptors = [[{}]]\n{verdict}", descriptor.join(", ")));
    }
    out
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("writing to a string does not fail");
}

/// A text as TOML has it, on one line.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => write!(out, "\\u{:04X}", u32::from(c)).expect("writing to a string does not fail"),
            c => out.push(c),
        }
    }
    out + "\""
}

/// A text that can't leave its comment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The domain and the way to a rule, in what a policy's name may have.
fn policy_name(domain: &str, entries: &[EntryMatch]) -> String {
    let path = entries.iter().fold(domain.to_owned(), |path, entry| format!("{path}/{entry}"));
    let usable = |c: char| if c.is_ascii_graphic() && c != '"' && c != '\\' { c } else { '_' };
    path.chars().map(usable).take(MAX_NAME).collect()
}

/// The name, or one like it that nobody has yet.
fn unique(name: &str, names: &mut HashSet<String>) -> String {
    let numbered = |number: usize| {
        let end = format!("~{number}");
        format!("{}{end}", &name[..name.len().min(MAX_NAME - end.len())])
    };
    let mut free = name.to_owned();
    let mut number = 2;
    while !names.insert(free.clone()) {
        free = numbered(number);
        number += 1;
    }
    free
}
