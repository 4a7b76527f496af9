//! What a rate limit would do, before it does it: requests of an access log, or of simulated traffic, decided by the engine
//! that will enforce the limit.
//!
//! The command `tidegate replay` and `tidegate simulate` are made of this; `docs/replay.md` tells how to use them. From a program:
//!
//! ```
//! use std::sync::Arc;
//! use tidegate::Policy;
//! use tidegate_replay::{logs::{Input, Reading, Requests}, replay::{self, Candidate, DecisionLog, Plan}, text};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("trace.csv");
//! std::fs::write(&path, "time_us,key,cost\n1000000,alice,1\n1200000,alice,1\n1300000,bob,1\n")?;
//! let reading = Reading { inputs: vec![Input::File(path)], ..Reading::default() };
//! let requests = Requests::open(reading, Arc::default())?;
//! let policy = Policy::unnamed(["1/1s".parse()?])?;
//! let plan = Plan { candidates: vec![Candidate { name: "1/1s".to_owned(), policy }], top: 10, ..Plan::default() };
//! let findings = replay::run(plan, requests, None::<DecisionLog<Vec<u8>>>, || {})?;
//! assert_eq!((findings.clients, findings.policies[0].denied), (2, 1));
//! assert_eq!(findings.policies[0].hardest_hit[0].key, "alice");
//! println!("{}", text::replay(&findings));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bins;
pub mod figures;
pub mod findings;
pub mod logs;
pub mod page;
pub mod replay;
pub mod simulate;
pub mod text;
