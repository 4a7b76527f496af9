//! Who is counted.

mod address;
mod found;
mod path;
