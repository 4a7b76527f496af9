//! Every code block of a document is tested, or says why not.

use std::fs;

use tidegate_testbed::markdown::{CodeBlock, code_blocks};

use super::{documents, root, session};
use crate::process;

/// The documents whose Rust code is compiled as documentation tests: their names are in the `lib.rs` of a crate.
fn doc_tested() -> String {
    let crates = fs::read_dir(root().join("crates")).expect("a folder").map(|entry| entry.expect("an entry").path());
    crates.filter_map(|path| fs::read_to_string(path.join("src/lib.rs")).ok()).collect()
}

fn is_doc_tested(document: &str, sources: &str) -> bool {
    let is_crate = document.starts_with("crates/") && document.ends_with("/README.md");
    is_crate || sources.contains(&format!("include_str!(\"../../../{document}\")"))
}

fn is_tested(document: &str, block: &CodeBlock, sources: &str) -> bool {
    let has = |name| block.comment(name).is_some();
    let session = session::DOCUMENTS.contains(&document);
    let tested = match block.language.as_str() {
        "rust" | "rust,no_run" => is_doc_tested(document, sources),
        // `scripts/newcomer` runs the commands of the README and compares their output.
        "sh" | "console" => session || document == "README.md",
        "toml" | "text" => true,
        "json" => session && has("request"),
        _ => session && has("file"),
    };
    tested || has("not run") || has("snippet") || has("excerpt")
}

#[test]
fn every_code_block_is_tested_or_says_why_not() {
    let sources = doc_tested();
    let mut problems = Vec::new();
    for (name, text) in documents() {
        let blocks = code_blocks(&text).into_iter().filter(|block| !is_tested(&name, block, &sources));
        problems.extend(blocks.map(|block| format!("{name}:{} ({})", block.line, block.language)));
    }
    assert_eq!(problems, [""; 0], "tests/it/documents/mod.rs lists the comments that say how a block is tested");
}

#[test]
fn the_service_accepts_every_configuration_of_the_documents() {
    let mut checked = 0;
    for (name, text) in documents() {
        let blocks = code_blocks(&text).into_iter();
        for block in blocks.filter(|block| block.language == "toml" && block.comment("not run").is_none()) {
            let file = process::file(&format!("{}-{}", name.replace('/', "-"), block.line), &block.text);
            let (exit, output) = process::exit_and_output(&["config", "check", &file.display().to_string()]);
            assert_eq!(exit, Some(0), "{name}:{}: {output}", block.line);
            fs::remove_file(file).expect("it was written");
            checked += 1;
        }
    }
    assert!(checked > 0, "no document shows a configuration");
}

/// Without indentation, because an excerpt may begin inside a function.
fn unindented(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_excerpt_is_part_of_its_file() {
    for (name, text) in documents() {
        for block in code_blocks(&text) {
            let Some(file) = block.comment("excerpt") else { continue };
            let source =
                fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
            assert!(unindented(&source).contains(&unindented(&block.text)), "{name}:{} is not in {file}", block.line);
        }
    }
}

/// A reader sees the lines that rustdoc hides, because this is Markdown on every other page.
#[test]
fn no_code_block_has_lines_that_only_rustdoc_hides() {
    let mut problems = Vec::new();
    for (name, text) in documents() {
        // It runs suites that its reader runs with macros.
        let has_reason = name == "crates/tidegate-conformance/README.md";
        for block in code_blocks(&text).iter().filter(|block| block.language.starts_with("rust") && !has_reason) {
            let is_hidden = |line: &&str| *line == "#" || line.starts_with("# ");
            problems.extend(block.text.lines().filter(is_hidden).map(|line| format!("{name}:{}: {line}", block.line)));
        }
    }
    assert_eq!(problems, [""; 0]);
}

/// An interactive zsh passes the words of a comment to the command.
#[test]
fn no_command_has_a_comment_after_it() {
    let mut problems = Vec::new();
    for (name, text) in documents() {
        for block in code_blocks(&text).iter().filter(|block| matches!(block.language.as_str(), "sh" | "console")) {
            let lines = block.text.lines().filter(|line| line.contains(" # "));
            problems.extend(lines.map(|line| format!("{name}:{}: {line}", block.line)));
        }
    }
    assert_eq!(problems, [""; 0], "write the comment into a sentence beside the block");
}
