//! Every relative link leads to a file that exists, and to a heading of it.

use std::{collections::HashMap, path::Path};

use tidegate_testbed::markdown::prose;

use super::{documents, root};

/// The targets of the links of a text: `[name](target)` and lines `[name]: target`.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let lines = text.lines().filter(|line| line.starts_with('['));
    inline.chain(lines.filter_map(|line| line.split_once("]: ")).map(|(_, target)| target))
}

/// The anchors of a document: its headings in lower case, without punctuation and with hyphens for spaces.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        kept.map(|char| if char == ' ' { '-' } else { char }).collect()
    };
    headings.map(anchor).collect()
}

/// Whether a target is not a file: a page of the web, or a path of Rust, which rustdoc resolves.
fn is_external(target: &str) -> bool {
    target.starts_with("https://") || target.starts_with("http://") || target.contains("::")
}

#[test]
fn every_link_of_a_document_resolves() {
    let (root, documents) = (root(), documents());
    let texts: HashMap<_, _> =
        documents.iter().map(|(name, text)| (root.join(name).canonicalize().expect("a file"), prose(text))).collect();
    let mut broken = Vec::new();
    for (name, text) in &documents {
        let prose = prose(text);
        for target in targets(&prose).filter(|target| !is_external(target)) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let document = root.join(name);
            let path = if path.is_empty() { document } else { document.parent().expect("a folder").join(path) };
            let Ok(path) = path.canonicalize() else {
                broken.push(format!("{name}: {target}"));
                continue;
            };
            let has_anchor = || texts.get(&path).is_some_and(|text| anchors(text).iter().any(|known| known == anchor));
            if !anchor.is_empty() && !has_anchor() {
                broken.push(format!("{name}: {target} (no such heading)"));
            }
        }
    }
    assert_eq!(broken, [""; 0]);
}

#[test]
fn the_readme_of_a_crate_has_no_links_that_fail_on_docs_rs() {
    let readmes =
        documents().into_iter().filter(|(name, _)| name.starts_with("crates/") && name.ends_with("README.md"));
    for (name, text) in readmes {
        let prose = prose(&text);
        let relative: Vec<_> =
            targets(&prose).filter(|target| !is_external(target) && !target.starts_with('#')).collect();
        assert_eq!(relative, [""; 0], "{name}: docs.rs has no files of the repository");
    }
}

#[test]
fn the_table_of_contents_links_every_page() {
    let contents = documents().into_iter().find(|(name, _)| name == "docs/README.md").expect("it exists").1;
    let linked: Vec<_> = targets(&contents).map(|target| target.split('#').next().unwrap_or_default()).collect();
    for (name, _) in documents() {
        let Some(page) = name.strip_prefix("docs/").filter(|page| *page != "README.md") else { continue };
        assert!(linked.contains(&page), "docs/README.md does not link {}", Path::new(page).display());
    }
}
