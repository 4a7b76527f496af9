//! Compiles the `.proto` files of `tidegate-server` to the descriptors that gRPC reflection shows.
//!
//! Run it after a change of a `.proto` file:
//!
//! ```text
//! cargo run -p tidegate-codegen
//! ```
//!
//! The descriptors are committed, so that a build of the service needs neither this crate nor protoc. A test checks that
//! they match the `.proto` files.

use std::{fs, path::Path};

use anyhow::Result;
use prost::Message as _;

/// The directory of the `.proto` files.
const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tidegate-server/src/transports/grpc/proto");

/// The `.proto` file of the service. It imports the others.
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";

/// The file of the descriptors, next to the `.proto` files.
const DESCRIPTORS: &str = "descriptors.bin";

fn main() -> Result<()> {
    Ok(fs::write(Path::new(PROTO).join(DESCRIPTORS), descriptors()?)?)
}

/// Returns the encoded descriptors of the service and of everything that it imports.
fn descriptors() -> Result<Vec<u8>> {
    let mut compiler = protox::Compiler::new([PROTO])?;
    compiler.include_imports(true).open_file(SERVICE)?;
    Ok(compiler.file_descriptor_set().encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_descriptors_match_the_proto_files() {
        let committed = fs::read(Path::new(PROTO).join(DESCRIPTORS)).expect("the file exists");
        let expected = descriptors().expect("the .proto files compile");
        assert!(committed == expected, "{DESCRIPTORS} is outdated: run `cargo run -p tidegate-codegen`");
    }
}
