//! The guides for contributors name files that exist.

use std::{fs, path::Path};

use super::{files_below, root};

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

#[test]
fn every_file_that_a_guide_for_contributors_names_exists() {
    let (root, mut files) = (root(), Vec::new());
    files_below(&root, &mut files);
    for guide in ["CONTRIBUTING.md", "ARCHITECTURE.md", "docs/extending.md"] {
        let text = fs::read_to_string(root.join(guide)).expect("a guide");
        let missing: Vec<_> =
            named_files(&text).filter(|name| !files.iter().any(|file| file.ends_with(name))).collect();
        assert_eq!(missing, [""; 0], "{guide} names files that do not exist");
    }
}
