//! What a rate limit would do, before it does it: requests of an access log, or of simulated traffic, decided by the engine
//! that will enforce the limit.

mod bins;
pub mod figures;
pub mod findings;
pub mod logs;
pub mod page;
pub mod replay;
pub mod simulate;
pub mod text;
