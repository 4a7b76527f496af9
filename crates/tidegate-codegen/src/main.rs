//! Generates the gRPC messages and descriptors of `tidegate-server` from its `.proto` files.
//!
//! Run it after a change of a `.proto` file:
//!
//! ```text
//! cargo run -p tidegate-codegen
//! ```
//!
//! The generated files are committed, so that a build of the service needs neither this crate nor protoc. A test checks that
//! they match the `.proto` files.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use prost::Message as _;
use prost_types::{FileDescriptorSet, field_descriptor_proto::Type};

/// The directory of the `.proto` files.
const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tidegate-server/src/transports/grpc/proto");

/// The `.proto` files of the services. They import the others.
const SERVICES: [&str; 2] = ["envoy/service/ratelimit/v3/rls.proto", "kuadrantrls.proto"];

fn main() -> Result<()> {
    let directory = Path::new(PROTO).join("generated");
    fs::remove_dir_all(&directory).ok();
    fs::create_dir(&directory)?;
    for (name, content) in generate()? {
        fs::write(directory.join(name), content)?;
    }
    Ok(())
}

/// Returns the generated files: Rust code for every package, `mod.rs` with the module tree, and the descriptors.
fn generate() -> Result<BTreeMap<String, Vec<u8>>> {
    let mut compiler = protox::Compiler::new([PROTO])?;
    compiler.include_imports(true).open_files(SERVICES)?;
    let mut descriptors = compiler.file_descriptor_set();
    let encoded = descriptors.encode_to_vec();

    read_entries_as_bytes(&mut descriptors).context("RateLimitDescriptor.Entry is missing")?;
    let directory = tempfile::tempdir()?;
    prost_build::Config::new().out_dir(directory.path()).include_file("mod.rs").compile_fds(descriptors)?;
    let mut files = read(directory.path())?;
    files.insert("descriptors.bin".to_owned(), encoded);
    Ok(files)
}

/// Changes the text fields of a descriptor entry to bytes, which have the same encoding.
///
/// Envoy copies headers into these fields without validation, and a client can put any byte into a header. prost rejects a
/// message with text that is not UTF-8, and Envoy admits a request when the rate limit service returns an error. With text
/// fields, one such byte would therefore bypass every limit.
fn read_entries_as_bytes(descriptors: &mut FileDescriptorSet) -> Option<()> {
    let mut messages = descriptors.file.iter_mut().flat_map(|file| &mut file.message_type);
    let descriptor = messages.find(|message| message.name() == "RateLimitDescriptor")?;
    let entry = descriptor.nested_type.iter_mut().find(|message| message.name() == "Entry")?;
    for field in &mut entry.field {
        field.set_type(Type::Bytes);
    }
    Some(())
}

/// Reads all files of a directory.
fn read(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_files_match_the_proto_files() {
        let expected = generate().expect("the .proto files compile");
        let committed = read(&Path::new(PROTO).join("generated")).expect("the directory exists");
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&committed), names(&expected), "run `cargo run -p tidegate-codegen`");
        for (name, content) in expected {
            assert!(committed[&name] == content, "{name} is outdated: run `cargo run -p tidegate-codegen`");
        }
    }
}
