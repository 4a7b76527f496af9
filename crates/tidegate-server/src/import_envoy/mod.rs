//! [`import_envoy`]: the configuration of envoyproxy/ratelimit as one of ours.
//!
//! `yaml` reads what is written there, `flatten` turns its tree into a list of rules that give the same verdicts, `write` puts
//! them into a file.

#[cfg(test)]
mod agreement;
mod flatten;
mod write;
mod yaml;

/// What a file came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The text of a configuration.
    pub toml: String,
    /// What could not be carried over as it was, one sentence each.
    pub warnings: Vec<String>,
}

/// Why a file can't be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct ImportError {
    /// What the file is called.
    pub name: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// Turns a file of envoyproxy/ratelimit (one domain in YAML) into a configuration of this service; `name` is what it is called.
///
/// Limits become `sliding_log` policies: there they start anew with every unit of time, here they hold for any stretch of it.
///
/// # Errors
/// If the file is not what envoyproxy/ratelimit would read, or has something that can't be written here.
pub fn import_envoy(name: &str, yaml: &str) -> Result<Imported, ImportError> {
    let error = |message: String| ImportError { name: name.to_owned(), message };
    let root = yaml::read(yaml).map_err(error)?;
    let mut warnings = Vec::new();
    let rules = flatten::flatten(&root.descriptors, &mut warnings).map_err(error)?;
    Ok(Imported { toml: write::write(name, &root.domain, &rules, &warnings), warnings })
}
