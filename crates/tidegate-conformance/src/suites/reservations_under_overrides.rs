//! Reservations of a key whose limits are overridden: every answer equals that of the model.

use super::reservations::compare;
use crate::{StoreUnderTest, settings};

/// Compares all operations on reservations while overrides are set and end.
///
/// # Panics
/// If the store breaks this promise.
pub fn every_answer_with_reservations_under_overrides_equals_the_model<S: StoreUnderTest>() {
    compare::<S>("every answer with reservations under overrides equals the model", true, settings::config(800), 25);
}
