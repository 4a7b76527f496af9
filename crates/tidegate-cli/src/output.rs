//! Printing results and error messages. A closed pipe is no error, as with `head`.

use std::io::{self, Write as _};

/// Prints a text to standard output.
pub(crate) fn print_text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Prints a line to standard error. Unlike `eprintln!` it does not panic if the line can't be written, because the exit
/// code still shows the result.
pub(crate) fn print_error(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "tidegate: {text}");
}

/// Prints a line to standard error without the name of this program.
pub(crate) fn print_error_line(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
