//! Writes traffic as CSV with the columns `time_us,key,cost`.

use std::io::{self, Write};

use super::{SimulatedRequest, Traffic};

/// Writes a header and the requests.
///
/// # Errors
/// If the output fails.
pub fn write(
    traffic: &Traffic,
    requests: impl Iterator<Item = SimulatedRequest>,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "time_us,key,cost")?;
    for SimulatedRequest { time_us, client, cost, .. } in requests {
        writeln!(out, "{time_us},{},{cost}", traffic.address(client))?;
    }
    Ok(())
}
