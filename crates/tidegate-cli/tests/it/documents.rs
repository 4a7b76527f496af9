//! The documents of the repository name files that exist, and the links of the crates' READMEs resolve on docs.rs.

use std::{
    fs,
    path::{Path, PathBuf},
};

const EXTENSIONS: [&str; 7] = ["rs", "lua", "js", "toml", "md", "yaml", "json"];

/// The texts between backticks that look like the path of a file, without patterns such as `<name>.rs`.
fn named_files(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |text: &&str| {
        let mut chars = text.chars();
        let has_extension = Path::new(text).extension().is_some_and(|end| EXTENSIONS.iter().any(|known| end == *known));
        has_extension && chars.all(|char| char.is_ascii_alphanumeric() || "._-/".contains(char))
    };
    text.split('`').skip(1).step_by(2).filter(is_path)
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, name) = (entry.path(), entry.file_name());
        if !path.is_dir() {
            found.push(path);
        } else if name != "target" && name != ".git" && name != "node_modules" {
            files_below(&path, found);
        }
    }
}

/// The targets of the links in a text, without those in blocks of code.
fn link_targets(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let lines: Vec<&str> = prose.flat_map(str::lines).collect();
    let inline = lines.iter().flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    let definitions = lines.iter().filter(|line| line.starts_with('[')).filter_map(|line| line.split_once("]: "));
    inline.chain(definitions.map(|(_, target)| target)).collect()
}

/// Whether a link works on docs.rs: an address, a heading of the page, or the path of a Rust item. rustdoc checks the
/// paths of items.
fn resolves_on_docs_rs(target: &str) -> bool {
    let is_item = || target.chars().all(|char| char.is_ascii_alphanumeric() || "_:@".contains(char));
    target.starts_with("https://") || target.starts_with('#') || is_item()
}

#[test]
fn the_links_of_every_published_crate_resolve_on_docs_rs() {
    let text = "[a](../a.md) [b](https://b) [c](c::D)\n```text\n[e](e/f)\n```\n[f]: examples/f.rs\n[g](g.md)";
    let relative: Vec<_> = link_targets(text).into_iter().filter(|target| !resolves_on_docs_rs(target)).collect();
    assert_eq!(relative, ["../a.md", "g.md", "examples/f.rs"], "the test finds links");

    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = fs::read_dir(&crates).expect("a folder").map(|entry| entry.expect("an entry").path());
    let is_published = |folder: &PathBuf| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml"));
        manifest.is_ok_and(|manifest| !manifest.contains("\npublish = false"))
    };
    let published: Vec<_> = folders.filter(is_published).collect();
    assert!(published.len() >= 7, "{published:?}");
    for folder in &published {
        let readme = folder.join("README.md");
        let text = fs::read_to_string(&readme).expect("every published crate has a README");
        let targets = link_targets(&text);
        let relative: Vec<_> = targets.iter().filter(|target| !resolves_on_docs_rs(target)).collect();
        assert!(relative.is_empty(), "links of {} that do not resolve on docs.rs: {relative:?}", readme.display());
        for target in targets.iter().filter_map(|target| target.strip_prefix("https://docs.rs/tidegate")) {
            let name = format!("tidegate{}", target.split('/').next().unwrap_or_default());
            assert!(published.iter().any(|folder| folder.ends_with(&name)), "{}: no crate {name}", readme.display());
        }
    }
}

#[test]
fn every_file_that_a_guide_for_contributors_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    files_below(&root, &mut files);
    for guide in ["CONTRIBUTING.md", "ARCHITECTURE.md", "docs/extending.md"] {
        let text = fs::read_to_string(root.join(guide)).expect("a guide");
        let missing: Vec<_> =
            named_files(&text).filter(|name| !files.iter().any(|file| file.ends_with(name))).collect();
        assert_eq!(missing, [""; 0], "{guide} names files that do not exist");
    }
}
