//! The Debian package: built, installed into a folder of its own, used, and removed. The system itself is not changed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::process::{Serving, exit_and_output, folder};

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// Runs dpkg on the root in a folder. Without root's rights, fakeroot lets dpkg set owners.
fn dpkg(root: &Path, arguments: &[&str]) {
    let mut dpkg = Command::new("fakeroot");
    dpkg.args(["dpkg", "--log=/dev/null", "--force-depends", "--force-script-chrootless"]);
    // The scripts of the package see a root that is not running systemd, and leave the units alone.
    dpkg.arg(format!("--root={}", root.display())).args(arguments).env("DPKG_ROOT", root);
    run(&mut dpkg);
}

fn files_below(root: &Path) -> Vec<PathBuf> {
    let listed = run(Command::new("find").arg(root).args(["-type", "f", "-not", "-path", "*/var/lib/*"]));
    String::from_utf8(listed.stdout).expect("text").lines().map(PathBuf::from).collect()
}

#[test]
fn the_debian_package_installs_answers_and_is_removed_without_a_trace() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = folder("debian-package");
    run(Command::new(project.join("scripts/package")).args(["--profile", "dev", "--out"]).arg(&packages));
    let package = fs::read_dir(&packages).expect("the folder").next().expect("one package").expect("an entry").path();
    let package = package.to_str().expect("text");
    let control = run(Command::new("dpkg-deb").args(["--info", package])).stdout;
    let control = String::from_utf8_lossy(&control).into_owned();
    for expected in ["Package: tidegate", "conffiles", "postinst", "prerm", "postrm"] {
        assert!(control.contains(expected), "{control}");
    }

    let root = folder("debian-root");
    fs::create_dir_all(root.join("var/lib/dpkg/info")).expect("a writable folder");
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).expect("a writable folder");
    fs::write(root.join("var/lib/dpkg/status"), "").expect("a writable folder");
    dpkg(&root, &["--install", package]);
    let at = |path: &str| root.join(path);
    for path in [
        "usr/bin/tidegate",
        "etc/tidegate/tidegate.toml",
        "usr/lib/systemd/system/tidegate.service",
        "usr/share/man/man1/tidegate-check.1.gz",
        "usr/share/bash-completion/completions/tidegate",
        "usr/share/zsh/vendor-completions/_tidegate",
        "usr/share/fish/vendor_completions.d/tidegate.fish",
        "usr/share/doc/tidegate/copyright",
    ] {
        assert!(at(path).is_file(), "{path} is missing");
    }

    let config = at("etc/tidegate/tidegate.toml").display().to_string();
    let serving = Serving::start_binary(&at("usr/bin/tidegate"), &["--config", &config]);
    let check = ["check", "203.0.113.7", "--policy", "public-api", "--server", &serving.http];
    assert_eq!(exit_and_output(&check), (Some(0), "allowed: 1 in use under 60/1m, 59 remaining\n".to_owned()));
    drop(serving);

    // The unit names paths of the system. They are replaced by those of the folder.
    let unit = fs::read_to_string(at("usr/lib/systemd/system/tidegate.service")).expect("the unit");
    let below_root = unit.replace("/usr/bin/tidegate", &at("usr/bin/tidegate").display().to_string());
    let copy = folder("debian-unit").join("tidegate.service");
    fs::write(&copy, below_root).expect("a writable folder");
    let verified = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy));
    assert!(!String::from_utf8_lossy(&verified.stderr).contains("tidegate.service"), "{verified:?}");

    dpkg(&root, &["--purge", "tidegate"]);
    assert_eq!(files_below(&root), Vec::<PathBuf>::new(), "nothing is left");
    for folder in [root, packages] {
        let _ = fs::remove_dir_all(folder);
    }
}
