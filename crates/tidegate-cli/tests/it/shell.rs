//! Completions in a real bash, and man pages for a real man.

use std::{fs, process::Command};

use crate::process::{BINARY, exit_and_output, folder};

#[test]
fn bash_completes_commands_and_options() {
    let path = folder("completions").join("tidegate.bash");
    let (code, script) = exit_and_output(&["completions", "bash"]);
    assert_eq!(code, Some(0));
    fs::write(&path, script).expect("a writable folder");
    for (words, expected) in
        [("tidegate ov", "override"), ("tidegate check --c", "--ca"), ("tidegate config i", "init")]
    {
        let words: Vec<&str> = words.split(' ').collect();
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let script = format!(
            "source {}; COMP_WORDS=({}); COMP_CWORD={}; _tidegate tidegate '{last}' '{before}'; echo \"${{COMPREPLY[@]}}\"",
            path.display(),
            words.join(" "),
            words.len() - 1
        );
        let output = Command::new("bash").args(["--norc", "-c", &script]).output().expect("bash is installed");
        let completions = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(completions.split_whitespace().any(|word| word == expected), "{words:?}: {output:?}");
    }
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let (code, script) = exit_and_output(&["completions", shell]);
        assert!(code == Some(0) && script.contains("tidegate"), "{shell}");
    }
    assert_eq!(exit_and_output(&["completions", "tcsh"]).0, Some(2));
}

/// Returns the names of the commands that a help text lists.
fn commands(path: &[&str]) -> Vec<String> {
    let (_, help) = exit_and_output(&[path, &["--help"]].concat());
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn every_command_has_a_man_page_without_warnings() {
    let directory = folder("man").join("pages");
    assert_eq!(exit_and_output(&["man", directory.to_str().expect("text")]).0, Some(0));
    let mut pages = vec!["tidegate".to_owned()];
    for command in commands(&[]) {
        pages.push(format!("tidegate-{command}"));
        pages.extend(commands(&[&command]).iter().map(|inner| format!("tidegate-{command}-{inner}")));
    }
    assert!(pages.len() > 20 && pages.contains(&"tidegate-override-set".to_owned()), "{pages:?}");
    for page in pages {
        let path = directory.join(format!("{page}.1"));
        let output = Command::new("man")
            .args(["--warnings", "-l"])
            .arg(&path)
            .env("MANPAGER", "cat")
            .env("LC_ALL", "C.UTF-8")
            .output();
        let output = output.expect("man is installed by scripts/peers");
        assert!(output.status.success() && output.stderr.is_empty(), "{page}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("tidegate"), "{page}");
    }
    let output = Command::new(BINARY).arg("man").output().expect("the binary runs");
    assert!(String::from_utf8_lossy(&output.stdout).contains(".TH tidegate 1"), "{output:?}");
}
