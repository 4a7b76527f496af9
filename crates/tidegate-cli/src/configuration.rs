//! `tidegate config`: checks a configuration, or converts one of Envoy's rate limit service.

use std::{fmt::Write as _, io::Read as _, path::Path};

use anyhow::Context as _;
use serde_json::json;
use tidegate_server::config::{Config, SettingSources};

use crate::{
    arguments::Format,
    outcome::Outcome,
    output::{print_error, print_text},
};

/// Prints the policies of a file, with the settings of the environment.
pub(crate) fn check(file: &Path, format: Format) -> anyhow::Result<Outcome> {
    let config = match SettingSources::from_environment().and_then(|sources| Config::load(Some(file), &sources)) {
        Ok(config) => config,
        Err(error) if format == Format::Json => {
            let result = json!({ "good": false, "origin": error.origin, "line": error.line, "error": error.message });
            print_text(&format!("{result}\n"))?;
            return Ok(Outcome::Usage);
        }
        Err(error) => return Err(error.into()),
    };
    if format == Format::Json {
        let policy = |(name, configured): (&str, &tidegate_server::config::ConfiguredPolicy)| {
            let limits: Vec<String> = configured.policy.limits().iter().map(ToString::to_string).collect();
            json!({ "name": name, "limits": limits, "algorithm": configured.policy.algorithm().to_string() })
        };
        let policies: Vec<_> = config.policies.iter().map(policy).collect();
        let result = json!({ "good": true, "policies": policies, "envoy": config.policies.envoy().len() });
        print_text(&format!("{result}\n"))?;
        return Ok(Outcome::Good);
    }
    let mut text = format!("{} is good\n", file.display());
    for (name, configured) in config.policies.iter() {
        let limits: Vec<String> = configured.policy.limits().iter().map(ToString::to_string).collect();
        let mode = if configured.policy.mode() == tidegate::Mode::Shadow { ", shadow" } else { "" };
        let algorithm = configured.policy.algorithm();
        let failure = configured.policy.on_store_failure();
        let _ = writeln!(text, "  {name}: {} by {algorithm}, {failure} if the store fails{mode}", limits.join(" and "));
    }
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
