//! The documents of the repository are true: their links resolve, and their code and their commands work.
//!
//! A comment before a code block says how it is tested:
//!
//! | comment | effect |
//! | --- | --- |
//! | none, `sh` or `console` | the commands run, and the output must be as shown |
//! | none, `toml` | the service accepts the configuration |
//! | `<!-- file: NAME -->` | the block is written to this file, for the commands that follow |
//! | `<!-- run: COMMAND -->` | this command runs first, for what the reader already has |
//! | `<!-- request: POST /v1/check -->` | each line is sent to the service, which must accept it |
//! | `<!-- snippet: NAME -->` | a test in `crates/tidegate-server/tests/peers` runs it |
//! | `<!-- excerpt: FILE -->` | the file contains the block |
//! | `<!-- not run: REASON -->` | nothing; the reason is for the reader of the source |

mod blocks;
mod links;
mod named_files;
mod reference;
mod session;
mod transcript;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below a folder, without generated ones.
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

/// The name of every Markdown document, from the folder of the repository, and its text.
fn documents() -> Vec<(String, String)> {
    let (root, mut files) = (root(), Vec::new());
    files_below(&root, &mut files);
    let documents = files.into_iter().filter(|file| file.extension().is_some_and(|end| end == "md"));
    let mut documents: Vec<_> = documents
        .map(|file| {
            let name = file.strip_prefix(&root).expect("below the folder").display().to_string();
            (name, fs::read_to_string(&file).expect("a text"))
        })
        .collect();
    documents.sort();
    documents
}
