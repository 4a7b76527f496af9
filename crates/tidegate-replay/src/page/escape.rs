//! Escapes foreign text: keys are user agents, paths and other text that a client sends.

use crate::{formatting::clip, short_names::shorten_all};

/// Maximum length of a foreign text in a tooltip.
const MAX: usize = 400;

/// Escapes a text for an element or an attribute. Replaces characters that are invisible or change the text direction.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Unicode has symbols for them: ␀, ␛, …
            '\0'..='\u{1f}' => out.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}')),
            '\u{7f}' => out.push('\u{2421}'),
            '\u{80}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns a foreign name as an element: clipped, with a tooltip that shows more.
pub(super) fn name(full: &str, max: usize) -> String {
    shortened(full, &clip(full, max))
}

/// Returns foreign names as elements: shortened where they do not differ, with tooltips that show more.
pub(super) fn names<S: AsRef<str>>(full: &[S], max: usize) -> Vec<String> {
    full.iter().zip(shorten_all(full, max)).map(|(full, shown)| shortened(full.as_ref(), &shown)).collect()
}

fn shortened(full: &str, shown: &str) -> String {
    let shown = if shown.is_empty() { "(empty)" } else { shown };
    if shown == full || full.is_empty() {
        format!("<bdi>{}</bdi>", text(shown))
    } else {
        format!("<bdi title=\"{}\">{}</bdi>", text(&clip(full, MAX)), text(shown))
    }
}

#[cfg(test)]
mod tests {
    use super::{name, names, text};

    #[test]
    fn foreign_text_is_never_markup() {
        assert_eq!(text("<script>alert('x')</script>"), "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
        assert_eq!(text("\" onload=\"x & y"), "&quot; onload=&quot;x &amp; y");
    }

    #[test]
    fn invisible_characters_are_replaced() {
        assert_eq!(text("a\0b\x1b[31m\nc\u{7f}"), "a␀b␛[31m␊c␡");
        assert_eq!(text("user\u{202e}gnp.exe\u{200b}\u{85}"), "user\u{fffd}gnp.exe\u{fffd}\u{fffd}");
    }

    #[test]
    fn long_names_are_clipped_with_a_tooltip() {
        assert_eq!(name("abc", 6), "<bdi>abc</bdi>");
        assert_eq!(name("abcdefg", 6), "<bdi title=\"abcdefg\">abcde…</bdi>");
        assert_eq!(names(&["abcdefgh1", "abcdefgh2"], 6)[1], "<bdi title=\"abcdefgh2\">abc…h2</bdi>");
        assert_eq!(name("", 6), "<bdi>(empty)</bdi>");
        assert!(name(&"x\"".repeat(100_000), 40).len() < 4_000);
    }
}
