//! Traffic as a CSV of `time_us,key,cost`.

use std::io::{self, Write};

use super::{Traffic, requests::Sent};

/// The line that names the columns.
pub const HEAD: &str = "time_us,key,cost";

/// Writes requests under a head; how many there were.
///
/// # Errors
/// If the output takes no more.
pub fn write(traffic: &Traffic, requests: impl Iterator<Item = Sent>, out: &mut impl Write) -> io::Result<u64> {
    writeln!(out, "{HEAD}")?;
    let mut written = 0;
    for Sent { time_us, client, cost, .. } in requests {
        writeln!(out, "{time_us},{},{cost}", traffic.name(client))?;
        written += 1;
    }
    Ok(written)
}
