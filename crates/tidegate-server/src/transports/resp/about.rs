//! What the service says about itself: `INFO`, `COMMAND`, and of `CONFIG` what Redis's own tools ask for.

use std::fmt::Write as _;

use super::{
    catalogue::{ENTRIES, Entry, Verb},
    command::{argument, shown},
    reply::Replies,
    request::Args,
    session::REDIS_VERSION,
};
use crate::{access::Access, metrics::Transport, service::Service};

/// `INFO [section …]`
pub(super) fn service(args: Args<'_>, service: &Service, out: &mut Replies) {
    let all = args.len() == 1 || args.iter().skip(1).any(is_all);
    let wants = |section: &str| all || args.iter().skip(1).any(|word| word.eq_ignore_ascii_case(section.as_bytes()));
    let mut text = String::new();
    let mut section = |name: &str, fields: &[(&str, String)]| {
        if wants(name) {
            let gap = if text.is_empty() { "" } else { "\r\n" };
            let _ = write!(text, "{gap}# {name}\r\n");
            for (field, value) in fields {
                let _ = write!(text, "{field}:{value}\r\n");
            }
        }
    };
    let store = if service.is_immediate() { "memory" } else { "redis" };
    section(
        "Server",
        &[
            ("redis_version", REDIS_VERSION.to_owned()),
            ("redis_mode", "standalone".to_owned()),
            ("tidegate_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("tidegate_store", store.to_owned()),
            ("tidegate_policies", service.live().policies.len().to_string()),
            ("process_id", std::process::id().to_string()),
            ("uptime_in_seconds", service.uptime().as_secs().to_string()),
            ("uptime_in_days", (service.uptime().as_secs() / 86_400).to_string()),
        ],
    );
    let clients = service.metrics().connections(Transport::Resp).get();
    section("Clients", &[("connected_clients", clients.to_string())]);
    section("Persistence", &[("loading", "0".to_owned())]);
    section("Replication", &[("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]);
    section("Cluster", &[("cluster_enabled", "0".to_owned())]);
    section("Keyspace", &[]);
    out.text(&text);
}

fn is_all(word: &[u8]) -> bool {
    ["all", "everything", "default"].iter().any(|all| word.eq_ignore_ascii_case(all.as_bytes()))
}

/// `COMMAND [COUNT | LIST | INFO [name …] | DOCS [name …]]`
pub(super) fn commands(args: Args<'_>, out: &mut Replies) {
    let named = || args.iter().skip(2).map(|name| Verb::named(name).map(Verb::entry));
    match argument(args, 1).to_ascii_uppercase().as_slice() {
        b"COUNT" => out.integer(ENTRIES.len()),
        b"LIST" => {
            out.array(ENTRIES.len());
            for entry in ENTRIES {
                out.bulk(entry.name.to_ascii_lowercase());
            }
        }
        b"INFO" if args.len() > 2 => {
            out.array(args.len() - 2);
            for entry in named() {
                match entry {
                    Some(entry) => details(entry, out),
                    None => out.null(),
                }
            }
        }
        b"" | b"INFO" => {
            out.array(ENTRIES.len());
            for entry in ENTRIES {
                details(entry, out);
            }
        }
        b"DOCS" => {
            let chosen: Vec<&Entry> =
                if args.len() > 2 { named().flatten().collect() } else { ENTRIES.iter().collect() };
            out.map(chosen.len());
            for entry in chosen {
                documentation(entry, out);
            }
        }
        _ => {
            let (word, usage) = (shown(argument(args, 1)), Verb::Command.entry().usage);
            out.error(&format!("ERR unknown subcommand '{word}'. Use COMMAND {usage}"));
        }
    }
}

/// A command's details, in the order that Redis has: name, arity, flags, first key, last key, step, categories, tips, key
/// specifications, subcommands.
fn details(entry: &Entry, out: &mut Replies) {
    out.array(10);
    out.bulk(entry.name.to_ascii_lowercase());
    out.integer(entry.arity);
    // A key is never looked up in a cluster here, and a replica would have nothing to say: every decision may write.
    let flags: &[&str] = match entry.access {
        Access::Nothing => &["fast", "no_auth"],
        _ if entry.key > 0 => &["write", "fast"],
        _ => &["fast"],
    };
    out.set(flags.len());
    for flag in flags {
        out.simple(flag);
    }
    // Of several keys, the first: that is what a proxy would choose a server by.
    out.integer(entry.key);
    out.integer(entry.key);
    out.integer(usize::from(entry.key > 0));
    out.set(0);
    out.array(0);
    out.array(0);
    out.array(0);
}

fn documentation(entry: &Entry, out: &mut Replies) {
    out.bulk(entry.name.to_ascii_lowercase());
    out.map(3);
    out.bulk("summary");
    out.bulk(format!("{}: {} {}", entry.summary, entry.name, entry.usage));
    out.bulk("since");
    out.bulk("0.1.0");
    out.bulk("group");
    out.bulk(if entry.key > 0 { "generic" } else { "connection" });
}

/// `CONFIG GET name …`: as much as redis-benchmark and redis-cli want to know. Settings are in the file, and stay there.
pub(super) fn config(args: Args<'_>, out: &mut Replies) {
    const KNOWN: [(&str, &str); 3] = [("save", ""), ("appendonly", "no"), ("databases", "1")];
    match argument(args, 1).to_ascii_uppercase().as_slice() {
        b"GET" if args.len() > 2 => {
            let asked =
                |name: &str| args.iter().skip(2).any(|word| word == b"*" || word.eq_ignore_ascii_case(name.as_bytes()));
            let found: Vec<_> = KNOWN.iter().filter(|(name, _)| asked(name)).collect();
            out.map(found.len());
            for (name, value) in found {
                out.bulk(name);
                out.bulk(value);
            }
        }
        b"GET" => out.error("ERR wrong number of arguments for 'config|get' command"),
        _ => {
            let word = shown(argument(args, 1));
            out.error(&format!("ERR CONFIG {word} does nothing here: settings are in the configuration file"));
        }
    }
}
