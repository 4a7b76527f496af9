//! [`visible`]: texts of strangers on a terminal.

/// The text with everything written out that a terminal would obey or hide: control characters, escape sequences, letters of
/// no width, and marks that turn the direction of what follows.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_dangerous(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    shown
}

fn is_dangerous(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            // No width, marks of direction, line and paragraph ends, embeddings, isolates.
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            // Tags: letters that nobody sees.
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(visible("\u{1b}[31mred\u{7}\r\n"), "\\u{1b}[31mred\\u{7}\\u{d}\\u{a}");
        assert_eq!(visible("\u{9b}2J\u{7f}\0"), "\\u{9b}2J\\u{7f}\\u{0}");
        assert_eq!(visible("a\u{202e}b\u{2066}c\u{200f}"), "a\\u{202e}b\\u{2066}c\\u{200f}");
        assert_eq!(visible("al\u{200b}ice\u{feff}\u{e0041}"), "al\\u{200b}ice\\u{feff}\\u{e0041}");
    }

    #[test]
    fn what_people_write_stays() {
        for text in ["alice", "Zoë · /x", "東京", "שלום", "a\\b", "👩", ""] {
            assert_eq!(visible(text), text);
        }
    }
}
