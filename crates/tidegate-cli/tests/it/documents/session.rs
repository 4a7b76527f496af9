//! Runs the commands of a document from top to bottom in one folder, as a reader does.

use std::{fs, path::PathBuf, process::Command};

use tidegate_testbed::{
    Server as RedisServer,
    markdown::{CodeBlock, code_blocks, with_ports},
};

use super::{
    root,
    transcript::{commands, exchanges, matches},
};
use crate::{
    http,
    process::{self, BINARY, Serving},
};

/// The documents with commands.
pub(super) const DOCUMENTS: [&str; 12] = [
    "docs/configuration.md",
    "docs/http.md",
    "docs/installing.md",
    "docs/leases.md",
    "docs/limit-an-api.md",
    "docs/migrating.md",
    "docs/overrides.md",
    "docs/production.md",
    "docs/replay.md",
    "docs/reservations.md",
    "docs/resp.md",
    "docs/share-a-quota.md",
];

/// A folder, the service that the document starts, and a Redis if the document uses one.
struct Session {
    document: &'static str,
    folder: PathBuf,
    service: Option<Serving>,
    redis: Option<RedisServer>,
}

impl Session {
    fn start(document: &'static str, text: &str) -> Self {
        let folder = process::folder(&document.replace('/', "-"));
        fs::copy(root().join("tidegate.toml"), folder.join("tidegate.toml")).expect("the example configuration");
        let redis = text.contains("6379").then(RedisServer::start);
        Self { document, folder, service: None, redis }
    }

    /// Replaces the ports of the document by those of this session.
    fn localize(&self, text: &str) -> String {
        let mut ports = Vec::new();
        if let Some(service) = &self.service {
            let port = |address: &str| address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
            ports.extend([(8080, port(&service.http)), (6380, port(&service.resp))]);
        }
        ports.extend(self.redis.as_ref().map(|redis| (6379, redis.port())));
        with_ports(text, &ports)
    }

    fn run_block(&mut self, block: &CodeBlock) {
        for comment in block.comments.clone() {
            if let Some(command) = comment.strip_prefix("run:") {
                self.run(command.trim(), None, block.line);
            }
        }
        if block.comment("not run").is_some() || block.comment("snippet").is_some() {
            return;
        }
        if let Some(name) = block.comment("file") {
            fs::write(self.folder.join(name), self.localize(&block.text)).expect("a writable folder");
        } else if let Some(request) = block.comment("request") {
            self.send(request, block);
        } else if block.language == "sh" {
            for (line, command) in commands(&block.text) {
                self.run(&command, None, block.line + line);
            }
        } else if block.language == "console" {
            for (line, command, output) in exchanges(&block.text) {
                self.run(&command, Some(&output), block.line + line);
            }
        }
    }

    /// Runs one command. It must print the output or, if none is shown, succeed.
    fn run(&mut self, command: &str, expected: Option<&str>, line: usize) {
        let place = format!("{}:{line}: {command}", self.document);
        if let Some(arguments) = command.strip_prefix("tidegate serve") {
            // The ports of the old service are free for nobody else: a new one gets its own.
            self.service = None;
            let arguments = self.localize(arguments);
            let arguments: Vec<_> = arguments.split_whitespace().collect();
            // A busy machine may need more than the default of 15 ms.
            let environment = [("TIDEGATE_STORE_TIMEOUT", "30s")];
            self.service = Some(Serving::start_in(&self.folder, &arguments, &environment));
            return;
        }
        let mut shell = Command::new("bash");
        shell.args(["-o", "pipefail", "-ec", &format!("{} 2>&1", self.localize(&format!("{{ {command}\n}}")))]);
        let programs = PathBuf::from(BINARY).parent().expect("a folder").to_owned();
        let path = std::env::var("PATH").expect("a path");
        shell.current_dir(&self.folder).env("PATH", format!("{}:{path}", programs.display())).env("NO_COLOR", "1");
        shell.env_remove("TIDEGATE_TOKEN").env_remove("TIDEGATE_SERVER");
        shell.envs(self.service.as_ref().map(|service| ("TIDEGATE_SERVER", &service.http)));
        let output = shell.output().expect("bash is installed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match expected.filter(|expected| !expected.is_empty()) {
            Some(expected) => assert!(matches(expected, &text), "{place} prints:\n{text}\nand not:\n{expected}"),
            None => assert!(output.status.success(), "{place}: {}:\n{text}", output.status),
        }
    }

    /// Sends each line of a block as a request, which must be accepted.
    fn send(&self, request: &str, block: &CodeBlock) {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let service = self.service.as_ref().expect("the document starts a service");
        let address =
            service.http.strip_prefix("http://").and_then(|address| address.parse().ok()).expect("an address");
        for body in block.text.lines() {
            let answer = http::send_json(address, method, path, body).expect("an answer");
            assert!(answer.get("error").is_none(), "{}:{}: {body}: {answer}", self.document, block.line);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.service = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn run(document: &'static str) {
    let text = fs::read_to_string(root().join(document)).expect("the document");
    let mut session = Session::start(document, &text);
    for block in code_blocks(&text) {
        session.run_block(&block);
    }
}

#[test]
fn the_commands_of_the_guides_work() {
    for document in DOCUMENTS {
        run(document);
    }
}
