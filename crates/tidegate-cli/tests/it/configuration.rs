//! `tidegate config`.

use std::fs;

use crate::process::{exit_and_output, file, folder};

#[test]
fn a_valid_file_is_described_and_an_invalid_one_is_refused() {
    let good = file("good", "[policies.api]\nlimits = [\"60/1m\", \"1000/1d\"]\nalgorithm = \"sliding_counter\"\n");
    let (code, output) = exit_and_output(&["config", "check", good.to_str().expect("text")]);
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("api: 60/1m and 1000/1d by sliding_counter, open if the store fails"), "{output}");
    let bad = file("bad", "[policies.api]\nlimit = [\"60/1m\"]\n");
    let (code, output) = exit_and_output(&["config", "check", bad.to_str().expect("text")]);
    assert!(
        code == Some(2) && output.contains("bad.toml:2:1: unknown key `limit`: did you mean `limits`?"),
        "{output}"
    );
    let (code, output) = exit_and_output(&["config", "check", bad.to_str().expect("text"), "--format", "json"]);
    assert!(code == Some(2) && output.contains("\"line\":2"), "{output}");
    assert_eq!(exit_and_output(&["config", "check", "/missing.toml"]).0, Some(2));
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tidegate.toml");
    assert_eq!(exit_and_output(&["config", "check", example]).0, Some(0), "the example is valid");
}

#[test]
fn a_configuration_of_envoys_service_can_be_imported() {
    let yaml = "domain: edge\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 60 }\n";
    let path = file("ratelimit.yaml", yaml);
    let (code, toml) = exit_and_output(&["config", "import-envoy", path.to_str().expect("text")]);
    assert_eq!(code, Some(0), "{toml}");
    let ours = file("imported", &toml);
    let (code, output) = exit_and_output(&["config", "check", ours.to_str().expect("text")]);
    assert!(code == Some(0) && output.contains("60/1m by sliding_log"), "{toml}\n{output}");
    assert_eq!(exit_and_output(&["config", "import-envoy", "/missing.yaml"]).0, Some(2));
}

#[test]
fn the_example_is_written_once_and_is_valid() {
    let path = folder("init").join("tidegate.toml");
    let name = path.to_str().expect("text");
    let (code, output) = exit_and_output(&["config", "init", name]);
    assert!(code == Some(0) && output.contains("edit it"), "{output}");
    assert_eq!(exit_and_output(&["config", "check", name]).0, Some(0));
    fs::write(&path, "# changed\n").expect("a writable file");
    let (code, output) = exit_and_output(&["config", "init", name]);
    assert!(code == Some(2) && output.contains("exists already and is not changed"), "{output}");
    assert_eq!(fs::read_to_string(&path).expect("the file"), "# changed\n", "an existing file is not changed");
    fs::remove_dir_all(path.parent().expect("a folder")).expect("the folder");
    let (code, output) = exit_and_output(&["config", "init", "-"]);
    assert!(code == Some(0) && output.contains("[policies.public-api]"), "{output}");
}

#[test]
fn the_version_has_the_name_of_the_command() {
    let (code, output) = exit_and_output(&["--version"]);
    assert_eq!((code, &*output), (Some(0), concat!("tidegate ", env!("CARGO_PKG_VERSION"), "\n")));
}
