//! Tidegate's promises, attacked.

mod bad_input;
mod capacity;
mod operations;
