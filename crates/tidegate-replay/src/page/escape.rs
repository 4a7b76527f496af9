//! What others wrote, made safe to show: keys are user agents, paths and whatever else a client sends.

/// The most characters of a foreign text that a page holds, also where all of it is asked for.
const MOST: usize = 400;

/// A text as it stands in an element or in an attribute. Characters that are not seen, or that turn the reading direction, are
/// shown as signs.
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // The signs that Unicode has for them: ␀, ␛, …
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

/// The beginning of a text, with `…` where something was left out.
pub fn clip(text: &str, at_most: usize) -> String {
    match text.char_indices().nth(at_most) {
        None => text.to_owned(),
        Some(_) => {
            let kept = text.char_indices().nth(at_most.saturating_sub(1)).map_or(0, |(end, _)| end);
            format!("{}…", text[..kept].trim_end())
        }
    }
}

/// A foreign name as an element: clipped, and in full when pointed at.
pub fn name(full: &str, at_most: usize) -> String {
    let shown = clip(full, at_most);
    let shown = if shown.is_empty() { "(empty)".to_owned() } else { shown };
    if shown.len() == full.len() || full.is_empty() {
        format!("<bdi>{}</bdi>", text(&shown))
    } else {
        format!("<bdi title=\"{}\">{}</bdi>", text(&clip(full, MOST)), text(&shown))
    }
}

#[cfg(test)]
mod tests {
    use super::{clip, name, text};

    #[test]
    fn nothing_foreign_becomes_markup() {
        assert_eq!(text("<script>alert('x')</script>"), "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
        assert_eq!(text("\" onload=\"x & y"), "&quot; onload=&quot;x &amp; y");
    }

    #[test]
    fn what_is_not_seen_is_shown() {
        assert_eq!(text("a\0b\x1b[31m\nc\u{7f}"), "a␀b␛[31m␊c␡");
        assert_eq!(text("user\u{202e}gnp.exe\u{200b}\u{85}"), "user\u{fffd}gnp.exe\u{fffd}\u{fffd}");
    }

    #[test]
    fn long_names_are_clipped_and_told_in_full() {
        assert_eq!(clip("abcdef", 6), "abcdef");
        assert_eq!(clip("abcdefg", 6), "abcde…");
        assert_eq!(clip("äöüß€", 3), "äö…");
        assert_eq!(name("abc", 6), "<bdi>abc</bdi>");
        assert_eq!(name("abcdefg", 6), "<bdi title=\"abcdefg\">abcde…</bdi>");
        assert_eq!(name("", 6), "<bdi>(empty)</bdi>");
        assert!(name(&"x\"".repeat(100_000), 40).len() < 4_000);
    }
}
