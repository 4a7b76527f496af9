//! Commands about the service: `INFO`, `COMMAND`, and the part of `CONFIG` that the tools of Redis use.

use std::fmt::Write as _;

use super::{
    command::{argument, shown},
    commands::{COMMANDS, CommandInfo, Verb},
    reply::Replies,
    request::Args,
    session::REDIS_VERSION,
};
use crate::{auth::Access, metrics::Transport, service::Service};

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
    section(
        "Server",
        &[
            ("redis_version", REDIS_VERSION.to_owned()),
            ("redis_mode", "standalone".to_owned()),
            ("tidegate_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("tidegate_store", service.store_report().kind.to_owned()),
            ("tidegate_policies", service.active_policies().policies.len().to_string()),
            ("process_id", std::process::id().to_string()),
            ("uptime_in_seconds", service.uptime().as_secs().to_string()),
            ("uptime_in_days", (service.uptime().as_secs() / 86_400).to_string()),
        ],
    );
    let clients = service.metrics().connections[Transport::Resp].get();
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
    let all = || COMMANDS.iter().map(Some).collect();
    let named = || args.iter().skip(2).map(CommandInfo::named).collect();
    let chosen: Vec<Option<&CommandInfo>> = if args.len() > 2 { named() } else { all() };
    match argument(args, 1).to_ascii_uppercase().as_slice() {
        b"COUNT" => out.integer(COMMANDS.len()),
        b"LIST" => {
            out.array(COMMANDS.len());
            for command in COMMANDS {
                out.bulk(command.name.to_ascii_lowercase());
            }
        }
        b"" | b"INFO" => {
            out.array(chosen.len());
            for command in chosen {
                match command {
                    Some(command) => details(command, out),
                    None => out.null(),
                }
            }
        }
        b"DOCS" => {
            out.map(chosen.iter().flatten().count());
            for command in chosen.into_iter().flatten() {
                documentation(command, out);
            }
        }
        _ => {
            let (word, usage) = (shown(argument(args, 1)), Verb::Command.info().usage);
            out.error(&format!("ERR unknown subcommand '{word}'. Use COMMAND {usage}"));
        }
    }
}

/// Writes the details of a command in the order of Redis: name, arity, flags, first key, last key, step, categories, tips, key
/// specifications, subcommands.
fn details(command: &CommandInfo, out: &mut Replies) {
    out.array(10);
    out.bulk(command.name.to_ascii_lowercase());
    out.integer(command.arity);
    // Every decision may write, so no command is read-only.
    let flags: &[&str] = match command.access {
        Access::Nothing => &["fast", "no_auth"],
        _ if is_for_keys(command) => &["write", "fast"],
        _ => &["fast"],
    };
    out.set(flags.len());
    for flag in flags {
        out.simple(flag);
    }
    // Only the first of several keys: a proxy would choose a server by it.
    out.integer(command.key);
    out.integer(command.key);
    out.integer(usize::from(command.key > 0));
    out.set(0);
    out.array(0);
    out.array(0);
    out.array(0);
}

fn documentation(command: &CommandInfo, out: &mut Replies) {
    out.bulk(command.name.to_ascii_lowercase());
    out.map(3);
    out.named("summary", |out| out.bulk(format!("{}: {} {}", command.summary, command.name, command.usage)));
    out.named("since", |out| out.bulk("0.1.0"));
    out.named("group", |out| out.bulk(if is_for_keys(command) { "generic" } else { "connection" }));
}

/// Returns whether a command reads or writes the state of keys. A commit names its keys only in the id.
fn is_for_keys(command: &CommandInfo) -> bool {
    command.key > 0 || command.name.starts_with("TG.")
}

/// `CONFIG GET name …`: the settings that redis-benchmark and redis-cli read. The settings of the service are in its file.
pub(super) fn config(args: Args<'_>, out: &mut Replies) {
    const KNOWN: [(&str, &str); 3] = [("save", ""), ("appendonly", "no"), ("databases", "1")];
    match argument(args, 1).to_ascii_uppercase().as_slice() {
        b"GET" if args.len() > 2 => {
            let is_requested =
                |name: &str| args.iter().skip(2).any(|word| word == b"*" || word.eq_ignore_ascii_case(name.as_bytes()));
            let found: Vec<_> = KNOWN.iter().filter(|(name, _)| is_requested(name)).collect();
            out.map(found.len());
            for (name, value) in found {
                out.bulk(name);
                out.bulk(value);
            }
        }
        b"GET" => out.error("ERR wrong number of arguments for 'config|get' command"),
        _ => {
            let word = shown(argument(args, 1));
            out.error(&format!("ERR CONFIG {word} is not supported: the settings are in the configuration file"));
        }
    }
}
