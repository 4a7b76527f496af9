//! The commands of a code block, and the comparison of their output with the output that the document shows.

/// The commands of a `sh` block and their lines. A command that starts the service is one of its own.
pub(super) fn commands(text: &str) -> Vec<(usize, String)> {
    let mut commands: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let serves = |text: &str| text.starts_with("tidegate serve");
        match commands.last_mut() {
            Some((_, command)) if !serves(line) && !serves(command) => command.extend(["\n", line]),
            _ => commands.push((index, line.to_owned())),
        }
    }
    commands
}

/// The commands of a `console` block with their lines and their output. A command begins with `$ ` and continues with `> `.
pub(super) fn exchanges(text: &str) -> Vec<(usize, String, String)> {
    let mut exchanges: Vec<(usize, String, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(command) = line.strip_prefix("$ ") {
            exchanges.push((index, command.to_owned(), String::new()));
            continue;
        }
        let (_, command, output) = exchanges.last_mut().expect("a console block begins with a command");
        match line.strip_prefix("> ") {
            Some(rest) if output.is_empty() => command.extend(["\n", rest]),
            _ => output.extend([line, "\n"]),
        }
    }
    exchanges
}

/// A line without what differs from run to run: dates, long numbers, and the spaces that align them.
fn normalized(line: &str) -> String {
    let is_date = |word: &str| word.len() >= 8 && word.chars().all(|char| char.is_ascii_digit() || "-:".contains(char));
    let words = line.split_whitespace().map(|word| if is_date(word) { "DATE".to_owned() } else { without_times(word) });
    words.collect::<Vec<_>>().join(" ")
}

/// A word with `TIME` in place of numbers of at least five digits.
fn without_times(word: &str) -> String {
    let (mut text, mut digits) = (String::new(), String::new());
    for char in word.chars().chain(['\n']) {
        if char.is_ascii_digit() {
            digits.push(char);
        } else {
            text.push_str(if digits.len() < 5 { &digits } else { "TIME" });
            digits.clear();
            text.push(char);
        }
    }
    text.trim_end().to_owned()
}

/// Whether the output is as shown. A line with `…` stands for any number of lines.
pub(super) fn matches(expected: &str, output: &str) -> bool {
    let lines = |text: &str| text.trim().lines().map(normalized).collect::<Vec<_>>();
    let (expected, output) = (lines(expected), lines(output));
    let parts: Vec<_> = expected.split(|line| line == "…").collect();
    let mut position = 0;
    for (index, part) in parts.iter().enumerate() {
        let candidates = if index == 0 { 0..1 } else { position..output.len() + 1 };
        let found = candidates.into_iter().find(|&start| output.get(start..start + part.len()) == Some(*part));
        let Some(start) = found else { return false };
        position = start + part.len();
    }
    position == output.len() || expected.last().is_some_and(|line| line == "…")
}

#[test]
fn output_is_compared_without_times_and_with_gaps() {
    assert!(matches("1,4,86400000 in  2h\n", "1,4,86399999 in 2h\n"));
    assert!(matches("until 2026-11-18 13:42:49 UTC\n", "until 2027-01-02 03:04:05 UTC\n"));
    assert!(!matches("4 left\n", "3 left\n"));
    assert!(!matches("a\n", "b\n"));
    assert!(!matches("a\n", "a\nb\n"));
    assert!(matches("a\n…\nc\n", "a\nb\nc\n"));
    assert!(matches("a\n…\n", "a\nb\nc\n"));
    assert!(!matches("a\n…\nd\n", "a\nb\nc\n"));
}
