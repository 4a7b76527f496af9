//! The configuration: a TOML file. The environment and flags replace single settings.
//!
//! `values` parses values, `file` has the tables of the file, `sources` the settings of the environment and the flags, `settings`
//! the resulting settings. `policies` is the part that is replaced while the service runs, `descriptors` finds the policy of an
//! Envoy descriptor, and `file_version` detects that a file has changed. `error` names the `place` of an error, and
//! `parser_message` rewrites errors of the TOML parser.

mod descriptors;
mod error;
mod file;
mod file_version;
mod parser_message;
mod place;
mod policies;
mod settings;
mod sources;
mod values;

use std::path::{Path, PathBuf};

pub use descriptors::DescriptorAction;
pub use error::ConfigError;
pub use policies::{ConfiguredPolicy, EntryMatch, EnvoyRule, Operation, Policies, RESERVED_NAME};
pub use settings::{Bounds, CallerLimits, Forwarding, ServerSettings, StoreSettings, Tls, Tokens};
pub use sources::SettingSources;
pub use tidegate_tower::{HeaderFormat, KeySource};

pub(crate) use file_version::{FileError, FileVersion, ensure_regular};

use error::Origin;
use file::File;

/// The configuration of a service.
#[derive(Debug)]
pub struct Config {
    /// The settings of the listeners.
    pub server: ServerSettings,
    /// The settings of the store.
    pub store: StoreSettings,
    /// The policies.
    pub policies: Policies,
    /// The file that it was read from, if any.
    pub file: Option<PathBuf>,
    /// The version of the file.
    pub(crate) version: FileVersion,
}

impl Config {
    /// Reads a file, or without one the defaults, and applies the settings of other sources.
    ///
    /// # Errors
    /// Returns the first error, with its line and what would be right.
    pub fn load(path: Option<&Path>, sources: &SettingSources) -> Result<Self, ConfigError> {
        // The version is read first, so that a change during the read counts as a later version.
        let version = path.map(FileVersion::of).unwrap_or_default();
        let (name, text) = match path {
            Some(path) => (path.display().to_string(), not_empty(path, file_version::read(path)?)?),
            None => ("the configuration".to_owned(), String::new()),
        };
        let mut config = Self::parse(&name, &text, sources)?;
        config.file = path.map(Path::to_owned);
        config.version = version;
        Ok(config)
    }

    /// Reads a configuration from a text. Errors contain `name`.
    ///
    /// # Errors
    /// Returns the first error, with its line and what would be right.
    pub fn parse(name: &str, text: &str, sources: &SettingSources) -> Result<Self, ConfigError> {
        let origin = Origin { name, text, replaced_by: &sources.settings };
        let file: File = toml::from_str(text).map_err(|error| origin.parser_error(&error))?;
        let (server, store) = sources.apply(file.server, file.store)?;
        Ok(Self {
            server: ServerSettings::new(server, &origin)?,
            store: StoreSettings::new(store, &origin)?,
            policies: Policies::new(file.policies, file.envoy.0, &origin)?,
            file: None,
            version: FileVersion::default(),
        })
    }
}

/// Refuses a file without any setting. It is most likely a file that was not written to its end.
fn not_empty(path: &Path, text: String) -> Result<String, ConfigError> {
    let is_empty = text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'));
    let message = "the file is empty: write a policy, such as a line `[policies.api]` and below it `limits = [\"60/1m\"]`, or \
                   write an example with `tidegate config init`";
    if is_empty { Err(ConfigError::new(path.display().to_string(), message)) } else { Ok(text) }
}
