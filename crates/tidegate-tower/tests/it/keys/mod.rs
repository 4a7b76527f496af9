//! Keys of requests.

mod address;
mod extractors;
mod path;
