//! The documents of the repository name files that exist.

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
