//! The reference names every setting and every metric.

use std::fs;

use super::root;
use crate::{http, process::Serving};

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("a file of the repository")
}

/// The keys that the tables of a configuration accept, from their declarations.
fn settings() -> Vec<String> {
    let source = read("crates/tidegate-server/src/config/file.rs");
    let keys = source.lines().filter_map(|line| {
        let line = line.trim_start();
        let (key, _) = line.strip_prefix("pub(super) ").unwrap_or(line).split_once(": ")?;
        key.chars().all(|char| char.is_ascii_lowercase() || char == '_' || char == '6').then(|| key.to_owned())
    });
    keys.collect()
}

#[test]
fn the_reference_names_every_setting() {
    let (page, settings) = (read("docs/configuration.md"), settings());
    assert!(settings.len() > 35 && settings.iter().any(|key| key == "ipv6_prefix"), "{settings:?}");
    let words: Vec<_> = page.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_')).collect();
    let missing: Vec<_> = settings.iter().filter(|key| !words.contains(&key.as_str())).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn the_reference_names_every_metric() {
    let (page, service) = (read("docs/metrics.md"), Serving::start(&[]));
    let address = service.http.strip_prefix("http://").and_then(|address| address.parse().ok()).expect("an address");
    let metrics = http::get(address, "/metrics").expect("an answer");
    let names: Vec<_> = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(names.len() > 10, "{metrics}");
    let missing: Vec<_> = names.into_iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert_eq!(missing, [""; 0]);
}
