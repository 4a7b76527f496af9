//! [`Labeller`]: what is shown of a key. Keys can be secrets, and are chosen by strangers.

use std::{
    fmt::Write as _,
    hash::{BuildHasher, RandomState},
};

use serde::Serialize;
use tidegate::Key;
use utoipa::ToSchema;

use crate::transports::http::KeySchema;

/// Whether those who look may see keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eyes {
    Open,
    Shut,
}

/// What is shown of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Label {
    /// The key as requests take it; null where it is hidden or hashed, or is not text.
    #[schema(value_type = Option<KeySchema>)]
    pub(crate) key: Option<Text>,
    /// What to show: the key, escaped where it is not text; `#` and a hash where the policy wants that; nothing where it is hidden.
    pub(crate) label: String,
}

/// A key as JSON has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Text {
    One(String),
    Several(Vec<String>),
}

/// Makes labels. Hashes are of this process: keys are often too few to be hidden by a hash that anybody can compute.
#[derive(Debug, Default)]
pub(crate) struct Labeller {
    secret: RandomState,
}

impl Labeller {
    /// What is shown of a key to those who look with these eyes; `hide` is what its policy says.
    pub(crate) fn label(&self, key: &Key<'_>, hide: bool, eyes: Eyes) -> Label {
        match (eyes, hide) {
            (Eyes::Shut, _) => Label { key: None, label: String::new() },
            (Eyes::Open, true) => Label { key: None, label: self.hash(key) },
            (Eyes::Open, false) => plain(key),
        }
    }

    fn hash(&self, key: &Key<'_>) -> String {
        format!("#{:016x}", self.secret.hash_one(key))
    }
}

fn plain(key: &Key<'_>) -> Label {
    let parts = key.parts();
    let texts: Option<Vec<String>> =
        parts.iter().map(|part| std::str::from_utf8(part).ok().map(str::to_owned)).collect();
    let label = match &texts {
        Some(texts) => texts.join(" · "),
        None => parts.iter().map(|part| escaped(part)).collect::<Vec<_>>().join(" · "),
    };
    let key = texts.and_then(|mut texts| match (key.is_joined(), texts.len()) {
        (false, 1) => texts.pop().map(Text::One),
        _ => Some(Text::Several(texts)),
    });
    Label { key, label }
}

/// Bytes that are no text, with those written out that are not part of one.
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

    use super::{Eyes, Label, Labeller, Text};

    #[test]
    fn keys_are_shown_as_they_are_asked_for() {
        let labeller = Labeller::default();
        let label = |key: &Key<'_>| labeller.label(key, false, Eyes::Open);
        let one = Label { key: Some(Text::One("alice".to_owned())), label: "alice".to_owned() };
        assert_eq!(label(&Key::new("alice").unwrap()), one);
        let several = label(&Key::join(["alice", "/x"]).unwrap());
        assert_eq!(several.label, "alice · /x");
        assert_eq!(several.key, Some(Text::Several(vec!["alice".to_owned(), "/x".to_owned()])));
        let single = label(&Key::join(["alice"]).unwrap());
        assert_eq!(single.key, Some(Text::Several(vec!["alice".to_owned()])), "a list of one is another key");
        let odd = label(&Key::new(b"a\xff<b>").unwrap());
        assert_eq!((odd.key, odd.label.as_str()), (None, "a\\xff<b>"));
    }

    #[test]
    fn what_is_hidden_is_hidden_and_a_hash_tells_keys_apart() {
        let labeller = Labeller::default();
        let (alice, bob) = (Key::new("alice").unwrap(), Key::new("bob").unwrap());
        assert_eq!(labeller.label(&alice, false, Eyes::Shut), Label { key: None, label: String::new() });
        let hashed = labeller.label(&alice, true, Eyes::Open);
        assert!(hashed.key.is_none() && hashed.label.starts_with('#') && hashed.label.len() == 17, "{hashed:?}");
        assert_eq!(hashed, labeller.label(&alice, true, Eyes::Open));
        assert_ne!(hashed, labeller.label(&bob, true, Eyes::Open));
        assert_ne!(hashed, Labeller::default().label(&alice, true, Eyes::Open), "another process, another hash");
    }
}
