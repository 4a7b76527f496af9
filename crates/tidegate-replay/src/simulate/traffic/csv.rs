//! Writes traffic as CSV with the columns `time_us,key,cost`, and `duration_us` if requests have durations.

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
    let has_durations = traffic.mean_request_us > 0;
    writeln!(out, "time_us,key,cost{}", if has_durations { ",duration_us" } else { "" })?;
    for SimulatedRequest { time_us, client, cost, duration_us, .. } in requests {
        write!(out, "{time_us},{},{cost}", traffic.address(client))?;
        if has_durations {
            write!(out, ",{duration_us}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
