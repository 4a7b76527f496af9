//! The suites accept a correct store and reject wrong ones.

mod correct_store;
mod faults;
mod faulty_store;
mod messages;
mod reservation_faults;
