//! Finds and runs the peers, and the configurations that the documents show for them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tidegate_testbed::markdown::{CodeBlock, code_blocks};

/// The snippets of the documents, which the tests of this folder run.
const SNIPPETS: [(&str, &[&str]); 2] = [
    (
        "docs/proxies.md",
        &[
            "nginx",
            "nginx-fail-open",
            "caddy",
            "caddy-fail-open",
            "traefik-static",
            "traefik",
            "traefik-fail-open-static",
            "traefik-fail-open",
        ],
    ),
    ("docs/envoy.md", &["envoy-certificates", "envoy-tidegate", "envoy-yaml", "envoy-retry-after"]),
];

fn snippets_of(document: &str) -> impl Iterator<Item = (String, CodeBlock)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let text = fs::read_to_string(path).expect("the document is there");
    let blocks = code_blocks(&text).into_iter();
    blocks.filter_map(|block| block.comment("snippet").map(str::to_owned).map(|name| (name, block)))
}

/// Returns a snippet of the documents: the code block after the comment `<!-- snippet: NAME -->`.
#[track_caller]
pub(crate) fn snippet(name: &str) -> String {
    let (document, _) =
        SNIPPETS.iter().find(|(_, names)| names.contains(&name)).unwrap_or_else(|| panic!("{name} is not a snippet"));
    let (_, block) = snippets_of(document).find(|(known, _)| known == name).expect("the document has the snippet");
    block.text
}

#[test]
fn the_tests_know_every_snippet_of_the_documents() {
    for (document, names) in SNIPPETS {
        assert_eq!(snippets_of(document).map(|(name, _)| name).collect::<Vec<_>>(), names, "{document}");
    }
}

/// Returns a file under `TIDEGATE_PEERS`; `target/peers` by default.
#[track_caller]
pub(crate) fn peer(path: &str) -> PathBuf {
    let root = match std::env::var_os("TIDEGATE_PEERS") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers"),
    };
    let path = root.join(path);
    assert!(path.exists(), "{} is missing: run scripts/peers", path.display());
    path
}

/// Runs a command that must succeed. Returns its standard output.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}: run scripts/peers"));
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} failed: {}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}
