//! What a rate limit would do, before it does it: requests of an access log, or of simulated traffic, decided by the engine
//! that will enforce the limit.

pub mod figures;
pub mod findings;
pub mod page;
pub mod text;
