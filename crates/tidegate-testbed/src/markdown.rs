//! The code blocks of Markdown documents, so that tests can run what the documents show.

/// A fenced code block.
#[derive(Debug, Clone)]
pub struct CodeBlock {
    /// The number of its first line of code, from 1.
    pub line: usize,
    /// The info string of the fence, such as `sh` or `rust,no_run`.
    pub language: String,
    /// The code. Every line ends with a line feed.
    pub text: String,
    /// The HTML comments on the lines directly before the block, which tell tests how to use it.
    pub comments: Vec<String>,
}

impl CodeBlock {
    /// Returns the text of the comment `<!-- name: text -->`.
    #[must_use]
    pub fn comment(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}:");
        self.comments.iter().find_map(|comment| comment.strip_prefix(&prefix)).map(str::trim)
    }
}

/// Returns the code blocks of a document in their order.
#[must_use]
pub fn code_blocks(document: &str) -> Vec<CodeBlock> {
    let (mut blocks, mut comments, mut open) = (Vec::new(), Vec::new(), None::<(CodeBlock, usize)>);
    for (index, line) in document.lines().enumerate() {
        let code = line.trim_start();
        match &mut open {
            Some(_) if code == "```" => blocks.extend(open.take().map(|(block, _)| block)),
            Some((block, indent)) => {
                block.text.push_str(line.get(*indent..).unwrap_or_default());
                block.text.push('\n');
            }
            None => {
                if let Some(language) = code.strip_prefix("```") {
                    let (line_number, comments) = (index + 2, std::mem::take(&mut comments));
                    let (language, text) = (language.to_owned(), String::new());
                    let block = CodeBlock { line: line_number, language, text, comments };
                    open = Some((block, line.len() - code.len()));
                } else if let Some(comment) = code.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")) {
                    comments.push(comment.trim().to_owned());
                } else {
                    comments.clear();
                }
            }
        }
    }
    assert!(open.is_none(), "a code block has no end: {open:?}");
    blocks
}

/// Returns the document without its code blocks.
#[must_use]
pub fn prose(document: &str) -> String {
    let mut in_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    };
    document.lines().filter(is_prose).collect::<Vec<_>>().join("\n")
}

/// Replaces ports that a document shows by those of a test, at most six. In two steps, because a new port may be one that the document
/// shows.
#[must_use]
pub fn with_ports(text: &str, ports: &[(u16, u16)]) -> String {
    let mark = |index: usize| format!("{{port {}}}", ["a", "b", "c", "d", "e", "f"][index]);
    let marked = ports
        .iter()
        .enumerate()
        .fold(text.to_owned(), |text, (index, (shown, _))| text.replace(&shown.to_string(), &mark(index)));
    ports.iter().enumerate().fold(marked, |text, (index, (_, actual))| text.replace(&mark(index), &actual.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_comments_directly_before_it() {
        let document = "<!-- a: 1 -->\ntext\n\n<!-- run: ls -->\n<!-- not run: why -->\n```sh\nls\n```\n- item\n  ```\n  x\n  ```\n";
        let blocks = code_blocks(document);
        assert_eq!(blocks.len(), 2);
        assert_eq!((&*blocks[0].language, &*blocks[0].text, blocks[0].line), ("sh", "ls\n", 7));
        assert_eq!((blocks[0].comment("run"), blocks[0].comment("not run")), (Some("ls"), Some("why")));
        assert_eq!(blocks[0].comment("a"), None);
        assert_eq!((&*blocks[1].text, blocks[1].comments.len()), ("x\n", 0));
        assert_eq!(prose(document).lines().last(), Some("- item"));
    }

    #[test]
    fn ports_are_replaced_once() {
        assert_eq!(with_ports("8000 8080", &[(8000, 8080), (8080, 9)]), "8080 9");
    }
}
