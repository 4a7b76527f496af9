//! Printing an answer: to whoever still listens.

use std::io::{self, Write as _};

/// Prints a text. Whoever has read enough may stop, as `head` does: that is no error.
pub(crate) fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        said => said,
    }
}
