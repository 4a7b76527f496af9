//! [`KeyLabeller`]: how keys are shown to people. Keys can be secrets, and strangers choose them.

use std::{
    fmt::Write as _,
    hash::{BuildHasher, RandomState},
};

use serde::{Deserialize, Serialize};
use tidegate::Key;
use utoipa::ToSchema;

/// Whether a viewer may see keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyVisibility {
    Visible,
    Hidden,
}

/// A key as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyLabel {
    /// The key as requests contain it; null if it is hidden or hashed, or is not text.
    pub key: Option<KeyText>,
    /// The text to show: the key, with bytes escaped that are not text; `#` and a hash if the policy hides its keys; empty if the
    /// caller may not see keys.
    pub label: String,
}

/// A key: a text, or a list of texts. Different lists are different keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the variants are described by their types")]
pub enum KeyText {
    One(SingleKey),
    Several(KeyList),
}

/// One text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(min_length = 1, max_length = 1024)]
pub struct SingleKey(pub String);

/// Several texts. Their bytes, and two more for each text, are at most 1024.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(min_items = 1, max_items = 512)]
pub struct KeyList(pub Vec<String>);

/// Makes labels. The hashes depend on a secret of this process, because a hash that anybody can compute does not hide keys that
/// can be guessed.
#[derive(Debug, Default)]
pub(crate) struct KeyLabeller {
    secret: RandomState,
}

impl KeyLabeller {
    /// Returns the label of a key. `hide` is whether its policy hides keys.
    pub(crate) fn label(&self, key: &Key<'_>, hide: bool, visibility: KeyVisibility) -> KeyLabel {
        match (visibility, hide) {
            (KeyVisibility::Hidden, _) => KeyLabel { key: None, label: String::new() },
            (KeyVisibility::Visible, true) => KeyLabel { key: None, label: self.hash(key) },
            (KeyVisibility::Visible, false) => plain(key),
        }
    }

    /// Returns the hash of a key as it is shown.
    pub(super) fn hash(&self, key: &Key<'_>) -> String {
        format!("#{:016x}", self.secret.hash_one(key))
    }
}

fn plain(key: &Key<'_>) -> KeyLabel {
    let parts = key.parts();
    let texts: Option<Vec<String>> =
        parts.iter().map(|part| std::str::from_utf8(part).ok().map(str::to_owned)).collect();
    let label = match &texts {
        Some(texts) => texts.join(" · "),
        None => parts.iter().map(|part| escaped(part)).collect::<Vec<_>>().join(" · "),
    };
    let key = texts.and_then(|mut texts| match (key.is_joined(), texts.len()) {
        (false, 1) => texts.pop().map(|text| KeyText::One(SingleKey(text))),
        _ => Some(KeyText::Several(KeyList(texts))),
    });
    KeyLabel { key, label }
}

/// Returns bytes as text, with `\\x…` for bytes that are not UTF-8.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use tidegate::Key;

    use super::{KeyLabel, KeyLabeller, KeyList, KeyText, KeyVisibility, SingleKey};

    #[test]
    fn a_label_contains_the_key_as_requests_contain_it() {
        let labeller = KeyLabeller::default();
        let label = |key: &Key<'_>| labeller.label(key, false, KeyVisibility::Visible);
        let one = KeyLabel { key: Some(KeyText::One(SingleKey("alice".to_owned()))), label: "alice".to_owned() };
        assert_eq!(label(&Key::new("alice").unwrap()), one);
        let several = label(&Key::join(["alice", "/x"]).unwrap());
        assert_eq!(several.label, "alice · /x");
        assert_eq!(several.key, Some(KeyText::Several(KeyList(vec!["alice".to_owned(), "/x".to_owned()]))));
        let single = label(&Key::join(["alice"]).unwrap());
        assert_eq!(
            single.key,
            Some(KeyText::Several(KeyList(vec!["alice".to_owned()]))),
            "a list of one is another key"
        );
        let odd = label(&Key::new(b"a\xff<b>").unwrap());
        assert_eq!((odd.key, odd.label.as_str()), (None, "a\\xff<b>"));
    }

    #[test]
    fn hidden_keys_have_no_label_and_hashes_distinguish_keys() {
        let labeller = KeyLabeller::default();
        let (alice, bob) = (Key::new("alice").unwrap(), Key::new("bob").unwrap());
        assert_eq!(labeller.label(&alice, false, KeyVisibility::Hidden), KeyLabel { key: None, label: String::new() });
        let hashed = labeller.label(&alice, true, KeyVisibility::Visible);
        assert!(hashed.key.is_none() && hashed.label.starts_with('#') && hashed.label.len() == 17, "{hashed:?}");
        assert_eq!(hashed, labeller.label(&alice, true, KeyVisibility::Visible));
        assert_ne!(hashed, labeller.label(&bob, true, KeyVisibility::Visible));
        assert_ne!(
            hashed,
            KeyLabeller::default().label(&alice, true, KeyVisibility::Visible),
            "another process, another hash"
        );
    }
}
