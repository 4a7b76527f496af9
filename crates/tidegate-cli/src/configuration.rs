//! `tidegate config`: writes an example, checks a configuration, or converts one of Envoy's rate limit service.

use std::{
    fs::File,
    io::{ErrorKind, Read as _, Write as _},
    path::Path,
};

use anyhow::{Context as _, bail};
use serde_json::json;
use tidegate::{Mode, Policy};
use tidegate_server::config::{Config, SettingSources};

use crate::{
    arguments::Format,
    outcome::Outcome,
    output::{print_error, print_text},
};

/// Every setting with its default, and a few policies.
const EXAMPLE: &str = include_str!("../example.toml");

/// Writes the example to a new file.
pub(crate) fn init(file: &Path) -> anyhow::Result<Outcome> {
    if file == Path::new("-") {
        print_text(EXAMPLE)?;
        return Ok(Outcome::Good);
    }
    let name = file.display();
    let mut created = match File::create_new(file) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{name} exists already and is not changed: name another file, or print the example with `-`");
        }
        created => created.with_context(|| format!("{name} can't be created"))?,
    };
    created.write_all(EXAMPLE.as_bytes()).with_context(|| format!("{name} can't be written"))?;
    print_text(&format!("{name} is written: edit it, then run `tidegate serve --config {name}`\n"))?;
    Ok(Outcome::Good)
}

/// Prints the policies of a file, with the settings of the environment.
pub(crate) fn check(file: &Path, format: Format) -> anyhow::Result<Outcome> {
    let config = match SettingSources::from_environment().and_then(|sources| Config::load(Some(file), &sources)) {
        Ok(config) => config,
        Err(error) if format == Format::Json => {
            let result = json!({ "good": false, "origin": error.origin, "line": error.line, "column": error.column, "error": error.message });
            print_text(&format!("{result}\n"))?;
            return Ok(Outcome::Usage);
        }
        Err(error) => return Err(error.into()),
    };
    let policies = || config.policies.iter().map(|(name, configured)| (name, &configured.policy));
    let limits = |policy: &Policy| policy.limits().iter().map(ToString::to_string).collect::<Vec<_>>();
    let text = match format {
        Format::Json => {
            let policy = |(name, policy): (&str, &Policy)| json!({ "name": name, "limits": limits(policy), "algorithm": policy.algorithm().to_string() });
            let policies: Vec<_> = policies().map(policy).collect();
            format!("{}\n", json!({ "good": true, "policies": policies, "envoy": config.policies.envoy().len() }))
        }
        Format::Text => {
            let line = |(name, policy): (&str, &Policy)| {
                let mode = if policy.mode() == Mode::Shadow { ", shadow" } else { "" };
                let (limits, algorithm) = (limits(policy).join(" and "), policy.algorithm());
                let failure = policy.on_store_failure();
                format!("  {name}: {limits} by {algorithm}, {failure} if the store fails{mode}\n")
            };
            format!("{} is good\n{}", file.display(), policies().map(line).collect::<String>())
        }
    };
    print_text(&text)?;
    Ok(Outcome::Good)
}

/// Converts the YAML of Envoy's rate limit service and prints the configuration.
pub(crate) fn import_envoy(file: &Path, format: Format) -> anyhow::Result<Outcome> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("standard input can't be read")?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))?;
    }
    let imported = tidegate_server::import_envoy(&file.display().to_string(), &text)?;
    match format {
        Format::Json => print_text(&format!("{}\n", json!({ "toml": imported.toml, "warnings": imported.warnings })))?,
        Format::Text => {
            print_text(&imported.toml)?;
            for warning in &imported.warnings {
                print_error(warning);
            }
        }
    }
    Ok(Outcome::Good)
}
