//! [`visible`]: makes texts of strangers safe for a terminal.

/// Escapes all characters that a terminal would execute or hide: control characters, escape sequences, characters without width,
/// and marks that change the text direction.
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
            // Tags, which are invisible.
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(visible("\u{1b}[31mred\u{7}\r\n"), "\\u{1b}[31mred\\u{7}\\u{d}\\u{a}");
        assert_eq!(visible("\u{9b}2J\u{7f}\0"), "\\u{9b}2J\\u{7f}\\u{0}");
        assert_eq!(visible("a\u{202e}b\u{2066}c\u{200f}"), "a\\u{202e}b\\u{2066}c\\u{200f}");
        assert_eq!(visible("al\u{200b}ice\u{feff}\u{e0041}"), "al\\u{200b}ice\\u{feff}\\u{e0041}");
    }

    #[test]
    fn ordinary_text_is_unchanged() {
        for text in ["alice", "Zoë · /x", "東京", "שלום", "a\\b", "👩", ""] {
            assert_eq!(visible(text), text);
        }
    }
}
