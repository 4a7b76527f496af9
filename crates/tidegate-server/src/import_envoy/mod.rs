//! [`import_envoy`]: converts a configuration of envoyproxy/ratelimit.
//!
//! `yaml` reads the file, `flatten` turns its tree of descriptors into a list of rules with the same decisions, and `write`
//! writes them as TOML.

#[cfg(test)]
mod equivalence;
mod flatten;
mod write;
mod yaml;

/// An imported configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// The configuration as TOML.
    pub toml: String,
    /// The differences from the original, one sentence each.
    pub warnings: Vec<String>,
}

/// The reason why a file cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
#[non_exhaustive]
pub struct ImportError {
    /// The name of the file.
    pub name: String,
    /// What is wrong and how to correct it.
    pub message: String,
}

/// Converts a file of envoyproxy/ratelimit (one domain in YAML) into a configuration of this service. Errors and comments
/// refer to the file as `name`.
///
/// Limits become `sliding_log` policies. The original counts in fixed windows; these policies apply to every window.
///
/// # Errors
/// Returns an error if envoyproxy/ratelimit would reject the file, or if a key cannot be expressed here.
pub fn import_envoy(name: &str, yaml: &str) -> Result<Imported, ImportError> {
    let error = |message: String| ImportError { name: name.to_owned(), message };
    let file = yaml::read(yaml).map_err(error)?;
    let mut warnings = Vec::new();
    let rules = flatten::flatten(&file.descriptors, &mut warnings).map_err(error)?;
    Ok(Imported { toml: write::write(name, &file.domain, &rules, &warnings), warnings })
}
