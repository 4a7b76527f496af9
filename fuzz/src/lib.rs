//! The bodies of fuzz targets, which `tests` also drives with random bytes on a stable toolchain.

pub mod operations;
