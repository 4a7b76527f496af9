//! The wall clock, in microseconds since the epoch, as the services read it.

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_conformance::model::Micros;

/// The time now.
pub(crate) fn now() -> Micros {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    Micros::try_from(elapsed.as_micros()).expect("microseconds fit")
}
