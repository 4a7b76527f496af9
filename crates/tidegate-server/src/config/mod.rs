//! The configuration: a TOML file, overridden by the environment, overridden by flags.
//!
//! `values` reads what is written, `file` has the tables, `settings` what they come to; `policies` is the part that is replaced while the
//! service runs, and `descriptors` finds which of them one of Envoy's descriptors is for.

mod descriptors;
mod environment;
mod error;
mod file;
mod policies;
mod settings;
mod values;

use std::{
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

pub use descriptors::Verdict;
pub use environment::Overrides;
pub use error::ConfigError;
pub use policies::{Configured, EntryMatch, EnvoyRule, Operation, Policies, RESERVED_NAME};
pub use settings::{Bounds, CallerLimits, Forwarding, ServerSettings, StoreSettings, Tls, Tokens};
pub use tidegate_tower::{HeaderFormat, KeySource};

use error::Origin;
use file::File;

/// Everything that a service is told.
#[derive(Debug)]
pub struct Config {
    /// Where it listens, and how.
    pub server: ServerSettings,
    /// Where its state lives.
    pub store: StoreSettings,
    /// By which limits it decides.
    pub policies: Policies,
    /// The file it was read from, if any.
    pub file: Option<PathBuf>,
    /// Which version of it.
    pub(crate) version: FileVersion,
}

/// What tells one version of a file from another; nothing where there is no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FileVersion(Option<Version>);

/// Two files of the same size may have the same time of modification; their numbers or their times of change differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    modified: SystemTime,
    size: u64,
    changed: (i64, i64),
    number: u64,
}

impl FileVersion {
    /// That of no file.
    pub(crate) const NONE: Self = Self(None);

    /// The version that a file has now.
    pub(crate) fn of(path: &Path) -> Self {
        let metadata = std::fs::metadata(path).ok();
        Self(metadata.and_then(|metadata| {
            Some(Version {
                modified: metadata.modified().ok()?,
                size: metadata.len(),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
                number: metadata.ino(),
            })
        }))
    }

    /// Whether there is a file.
    pub(crate) fn exists(self) -> bool {
        self.0.is_some()
    }
}

impl Config {
    /// Reads a file (or, without one, the defaults), and what overrides it.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and what would be right.
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        // Before it is read: what is written meanwhile is a later version.
        let version = path.map(FileVersion::of).unwrap_or_default();
        let (name, text) = match path {
            Some(path) => (path.display().to_string(), read(path)?),
            None => ("the configuration".to_owned(), String::new()),
        };
        let mut config = Self::parse(&name, &text, overrides)?;
        config.file = path.map(Path::to_owned);
        config.version = version;
        Ok(config)
    }

    /// Reads a configuration from a text; `name` is what errors call it.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and what would be right.
    pub fn parse(name: &str, text: &str, overrides: &Overrides) -> Result<Self, ConfigError> {
        let origin = Origin { name, text, overridden: &overrides.said };
        let file: File = toml::from_str(text).map_err(|error| origin.parser_error(&error))?;
        let (server, store) = overrides.apply(file.server, file.store)?;
        Ok(Self {
            server: ServerSettings::new(server, &origin)?,
            store: StoreSettings::new(store, &origin)?,
            policies: Policies::new(file.policies, file.envoy, &origin)?,
            file: None,
            version: FileVersion::default(),
        })
    }
}

/// A configuration is small; a wrong path to something endless should not be read to its end.
const MOST: u64 = 16 << 20;

fn read(path: &Path) -> Result<String, ConfigError> {
    let origin = path.display().to_string();
    let error =
        |Unusable { message, unreadable }| ConfigError { origin: origin.clone(), line: None, message, unreadable };
    let failed = |e: std::io::Error| error(Unusable::unread(&e));
    regular(path).map_err(error)?;
    let mut text = String::new();
    // The file may have grown since its size was checked.
    let size =
        std::fs::File::open(path).and_then(|file| file.take(MOST + 1).read_to_string(&mut text)).map_err(failed)?;
    if size as u64 > MOST {
        let message = format!("has more than {MOST} bytes: a configuration may have at most that many");
        return Err(error(Unusable { message, unreadable: false }));
    }
    Ok(text)
}

/// Refuses a path that is not a regular file: opening a FIFO or a device may never return.
pub(crate) fn regular(path: &Path) -> Result<(), Unusable> {
    let metadata = std::fs::metadata(path).map_err(|error| Unusable::unread(&error))?;
    let message = match metadata.len() {
        _ if !metadata.is_file() => "is not a regular file: use a plain file, or a link to one".to_owned(),
        size if size > MOST => format!("has {size} bytes: at most {MOST} are read"),
        _ => return Ok(()),
    };
    Err(Unusable { message, unreadable: false })
}

/// Why a file can't be used.
#[derive(Debug)]
pub(crate) struct Unusable {
    pub(crate) message: String,
    /// Whether the file could not be read, whatever is in it. It is read again then.
    pub(crate) unreadable: bool,
}

impl Unusable {
    pub(crate) fn unread(error: &std::io::Error) -> Self {
        Self { message: format!("can't be read: {error}"), unreadable: true }
    }
}
