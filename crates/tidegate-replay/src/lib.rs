//! Tries a rate limit before you enable it. The engine that enforces the limit decides the requests of an access log, or of
//! simulated traffic.
//!
//! The commands `tidegate replay` and `tidegate simulate` use this library. `docs/replay.md` describes them. In a program:
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::Policy;
//! use tidegate_replay::{logs::{LogReader, LogSource, ReadOptions}, replay::{self, Candidate, DecisionLog, ReplayOptions}, text};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("trace.csv");
//! std::fs::write(&path, "time_us,key,cost\n1000000,alice,1\n1200000,alice,1\n1300000,bob,1\n")?;
//! let options = ReadOptions { sources: vec![LogSource::File(path)], ..ReadOptions::default() };
//! let reader = LogReader::open(options, Arc::default())?;
//! let policy = Policy::unnamed(["1/1s".parse()?])?;
//! let candidates = vec![Candidate { name: "1/1s".to_owned(), policy }];
//! let options = ReplayOptions { candidates, top: 10, ..ReplayOptions::default() };
//! let findings = replay::run(options, reader, None::<DecisionLog<Vec<u8>>>, || {})?;
//! assert_eq!((findings.clients, findings.policies[0].denied), (2, 1));
//! assert_eq!(findings.policies[0].hardest_hit[0].key, "alice");
//! println!("{}", text::replay(&findings));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bins;
mod client_numbers;
pub mod findings;
pub mod formatting;
pub mod logs;
pub mod page;
pub mod replay;
pub mod simulate;
mod table;
pub mod text;
mod wording;

/// Returns a duration in microseconds.
fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the window of a limit in microseconds.
fn window_us(limit: tidegate::Limit) -> u64 {
    micros(limit.window())
}
