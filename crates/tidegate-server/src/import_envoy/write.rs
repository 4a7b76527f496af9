//! Writes the rules as TOML.

use std::{collections::HashSet, fmt::Write as _};

use super::flatten::{FlatRule, RuleEffect};
use crate::config::EntryMatch;

/// Maximum length of a policy name.
const MAX_NAME: usize = 128;

/// Writes a configuration.
pub(super) fn write(origin: &str, domain: &super::yaml::Text, rules: &[FlatRule], warnings: &[String]) -> String {
    let domain = &domain.0;
    let mut out = format!("# Imported from {}, a configuration of envoyproxy/ratelimit.\n", one_line(origin));
    out.push_str("# The original counts in fixed windows, which admit up to twice the limit around the start of a window. These policies\n");
    out.push_str("# never exceed the limit in any window. For the original behaviour, set algorithm = \"fixed_window\" in a policy.\n");
    if !warnings.is_empty() {
        out.push_str("#\n# Differences from the original:\n");
    }
    for warning in warnings {
        line(&mut out, &format!("# - {}", one_line(warning)));
    }
    let mut names = HashSet::new();
    for rule in rules {
        let descriptor: Vec<String> = rule.entries.iter().map(|entry| quoted(&entry.to_string())).collect();
        out.push('\n');
        let effect = match &rule.effect {
            RuleEffect::Limit { limit, shadow, name } => {
                if !name.is_empty() {
                    line(&mut out, &format!("# Name in the original: {}.", one_line(name)));
                }
                let policy = unique(&policy_name(domain, &rule.entries), &mut names);
                line(&mut out, &format!("[policies.{}]\nlimits = [{}]", quoted(&policy), quoted(limit)));
                line(&mut out, "algorithm = \"sliding_log\"");
                if *shadow {
                    line(&mut out, "mode = \"shadow\"");
                }
                format!("policy = {}", quoted(&policy))
            }
            RuleEffect::Unlimited(why) => {
                line(&mut out, &format!("# Unlimited: {why}."));
                "unlimited = true".to_owned()
            }
            RuleEffect::Denied => {
                line(&mut out, "# Denied: the original has a limit of 0.");
                "deny = true".to_owned()
            }
        };
        line(&mut out, &format!("[[envoy]]\ndomain = {}", quoted(domain)));
        line(&mut out, &format!("descriptors = [[{}]]\n{effect}", descriptor.join(", ")));
    }
    out
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("writing to a string never fails");
}

/// Returns a TOML string on one line.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => write!(out, "\\u{:04X}", u32::from(c)).expect("writing to a string never fails"),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Replaces control characters, so that the text stays within its comment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns the domain and the path of a rule, in the characters that a policy name may have.
fn policy_name(domain: &str, entries: &[EntryMatch]) -> String {
    let path = entries.iter().fold(domain.to_owned(), |path, entry| format!("{path}/{entry}"));
    let usable = |c: char| if c.is_ascii_graphic() && c != '"' && c != '\\' { c } else { '_' };
    path.chars().map(usable).take(MAX_NAME).collect()
}

/// Returns the name, with a number if it is already taken.
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
