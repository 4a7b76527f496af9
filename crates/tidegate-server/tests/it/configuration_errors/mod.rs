//! The errors of wrong configuration files. `cases.txt` has the files, and the snapshot has the files and their errors.

use std::fmt::Write as _;

use tidegate_server::config::{Config, SettingSources};

const CASES: &str = include_str!("cases.txt");

#[test]
fn every_wrong_file_is_refused_with_its_place_and_what_would_be_right() {
    let folder = tempfile::tempdir().expect("a writable directory");
    let path = folder.path().join("tidegate.toml");
    let mut report = String::new();
    for case in CASES.split("### ").skip(1) {
        let (name, text) = case.split_once('\n').expect("a name and a text");
        std::fs::write(&path, text).expect("a writable directory");
        let error = Config::load(Some(&path), &SettingSources::default()).expect_err(name).to_string();
        assert!(!error.contains("1234567890") && !error.contains("secret7"), "a token is never shown: {error}");
        assert!(!error.contains('\0') && !error.contains("struct"), "an internal name: {error}");
        let error = error.replace(&*folder.path().join("").to_string_lossy(), "");
        writeln!(report, "### {name}\n{}\n--> {error}\n", text.trim_end()).expect("a text");
    }
    insta::assert_snapshot!(report);
}
