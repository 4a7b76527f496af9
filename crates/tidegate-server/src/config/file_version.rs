//! [`FileVersion`]: distinguishes versions of a file; and reading a file within bounds.

use std::{io::Read as _, os::unix::fs::MetadataExt as _, path::Path, time::SystemTime};

use super::ConfigError;

/// Distinguishes versions of a file. Two versions may have the same size and modification time. Then their inode or their
/// change time differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FileVersion {
    /// `None` if the file does not exist.
    modified: Option<SystemTime>,
    size: u64,
    changed: (i64, i64),
    inode: u64,
}

impl FileVersion {
    /// Returns the current version of a file.
    pub(crate) fn of(path: &Path) -> Self {
        let Ok(metadata) = std::fs::metadata(path) else { return Self::default() };
        Self {
            modified: metadata.modified().ok(),
            size: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }

    /// Returns whether the file exists.
    pub(crate) fn exists(self) -> bool {
        self.modified.is_some()
    }
}

/// Maximum size of a file. It bounds the memory if a path is wrong.
const MAX_SIZE: u64 = 16 << 20;

pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    let origin = path.display().to_string();
    let error = |FileError { message, unreadable }| ConfigError { unreadable, ..ConfigError::new(&origin, message) };
    let failed = |e: std::io::Error| error(FileError::unreadable(&e));
    ensure_regular(path).map_err(error)?;
    let mut text = String::new();
    // The file may have grown since its size was checked.
    let size =
        std::fs::File::open(path).and_then(|file| file.take(MAX_SIZE + 1).read_to_string(&mut text)).map_err(failed)?;
    if size as u64 > MAX_SIZE {
        let message = format!("has more than {MAX_SIZE} bytes: a configuration may have at most that many");
        return Err(error(FileError { message, unreadable: false }));
    }
    Ok(text)
}

/// Refuses a path that is not a regular file, because opening a FIFO or a device may never return.
pub(crate) fn ensure_regular(path: &Path) -> Result<(), FileError> {
    let metadata = std::fs::metadata(path).map_err(|error| FileError::unreadable(&error))?;
    let message = match metadata.len() {
        _ if !metadata.is_file() => "is not a regular file: use a plain file, or a link to one".to_owned(),
        size if size > MAX_SIZE => format!("has {size} bytes: at most {MAX_SIZE} are read"),
        _ => return Ok(()),
    };
    Err(FileError { message, unreadable: false })
}

/// The reason why a file can't be used.
#[derive(Debug)]
pub(crate) struct FileError {
    pub(crate) message: String,
    /// Whether the file could not be read. It is read again then.
    pub(crate) unreadable: bool,
}

impl FileError {
    pub(crate) fn unreadable(error: &std::io::Error) -> Self {
        Self { message: format!("can't be read: {error}"), unreadable: true }
    }
}
