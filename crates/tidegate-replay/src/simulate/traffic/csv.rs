//! Writes traffic as CSV with the columns `time_us,key,cost`.

use std::io::{self, Write};

use super::{SimulatedRequest, Traffic};

/// The header line.
pub const HEADER: &str = "time_us,key,cost";

/// Writes a header and the requests. Returns the number of requests.
///
/// # Errors
/// If the output fails.
pub fn write(
    traffic: &Traffic,
    requests: impl Iterator<Item = SimulatedRequest>,
    out: &mut impl Write,
) -> io::Result<u64> {
    writeln!(out, "{HEADER}")?;
    let mut written = 0;
    for SimulatedRequest { time_us, client, cost, .. } in requests {
        writeln!(out, "{time_us},{},{cost}", traffic.address(client))?;
        written += 1;
    }
    Ok(written)
}
