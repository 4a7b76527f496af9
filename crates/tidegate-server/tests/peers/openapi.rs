//! The `OpenAPI` document is valid, and real tools accept it: schemathesis generates requests and checks the responses, and
//! openapi-generator generates clients that compile and work.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    client::get,
    running::Running,
    tools::{peer, run},
};

const CONFIG: &str = r#"
[server]
token = "usage-token"
admin_token = "admin-token"
[policies.public-api]
limits = ["1000/1m"]
[policies.youtube]
limits = ["9500/1d"]
[policies.narrow]
limits = ["2/1h"]
"#;

/// A folder for generated files. It is deleted on drop.
struct Folder(PathBuf);

impl Folder {
    /// Creates the folder with the document in it.
    fn new(name: &str, service: &Running) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", service.http.port()));
        fs::create_dir_all(&folder).expect("a writable directory");
        fs::write(folder.join("openapi.json"), get(service.http, "/openapi.json").body).expect("a writable file");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Generates a client into the folder.
fn generate(folder: &Folder, arguments: &[&str]) {
    let mut command = Command::new(peer("python/bin/openapi-generator-cli"));
    run(command.args(["generate", "-i", "openapi.json", "-o", "."]).args(arguments).current_dir(&folder.0));
}

#[test]
fn the_document_is_valid_openapi() {
    let running = Running::start(CONFIG);
    let folder = Folder::new("openapi-validator", &running);
    let path = folder.0.join("openapi.json");
    run(Command::new(peer("python/bin/openapi-spec-validator")).arg(&path));
    let document: serde_json::Value = get(running.http, "/openapi.json").json();
    let body = "/paths/~1v1~1check/post/responses/429/content/application~1json/schema";
    assert_eq!(document.pointer(body), Some(&serde_json::json!({ "$ref": "#/components/schemas/DecisionBody" })));
    let security = |path: &str| document.pointer(path).cloned().unwrap_or_default();
    let both = serde_json::json!([{ "usage_token": [] }, { "admin_token": [] }]);
    assert_eq!(security("/paths/~1v1~1check/post/security"), both);
    assert_eq!(security("/paths/~1v1~1reset/post/security"), serde_json::json!([{ "admin_token": [] }]));
    assert_eq!(security("/paths/~1healthz/get/security"), serde_json::Value::Null);
}

#[test]
fn a_generated_typescript_client_compiles() {
    let running = Running::start(CONFIG);
    let folder = Folder::new("openapi-typescript", &running);
    generate(&folder, &["-g", "typescript-fetch"]);
    let mut compiler = Command::new("node");
    compiler.arg(peer("node/node_modules/typescript/bin/tsc")).args(["--noEmit", "--strict", "--target", "es2020"]);
    compiler.args(["--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2020,dom", "index.ts"]);
    run(compiler.current_dir(&folder.0));
}

#[test]
fn a_generated_python_client_works() {
    let running = Running::start(CONFIG);
    let folder = Folder::new("openapi-python", &running);
    generate(&folder, &["-g", "python", "--package-name", "tidegate_client"]);
    let mut python = Command::new(peer("python/bin/python"));
    python.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/clients/openapi.py"));
    let output = run(python.arg(format!("http://{}", running.http)).env("PYTHONPATH", &folder.0));
    assert_eq!(output.trim(), "ok");
}

#[test]
fn responses_match_the_document() {
    let running = Running::start(CONFIG);
    let url = format!("http://{}/openapi.json", running.http);
    let mut command = Command::new(peer("python/bin/schemathesis"));
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/schemathesis.toml");
    command.arg("--config-file").arg(settings);
    command.args([
        "run",
        &url,
        "--header",
        "Authorization: Bearer admin-token",
        "--seed",
        "1",
        "--max-examples",
        "60",
        "--phases",
        "examples,coverage,fuzzing",
        "--no-color",
    ]);
    // An event stream does not end.
    command.args(["--exclude-path", "/v1/live"]);
    // The schema permits requests that the service refuses, such as unknown policies and invalid limits. The tool also sends more
    // wrong tokens than one address may send, and takes the 429 for a missing check; `abuse::wrong_tokens` tests that.
    command.args(["--checks", "all", "--exclude-checks", "positive_data_acceptance,ignored_auth"]);
    command.args(["--generation-database", "none"]);
    run(command.current_dir(env!("CARGO_TARGET_TMPDIR")));
}
