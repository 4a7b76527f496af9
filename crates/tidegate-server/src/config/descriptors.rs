//! [`Descriptors`]: finds the rule for an Envoy descriptor.
//!
//! A rule has as many entries as the descriptor, with the same names in the same order. If several rules match, the first entry
//! in which they differ decides: `key=value` has priority over `key=prefix*` (longer prefixes first), and that over `key`. The
//! rules are a tree with one level for each entry, so a lookup takes a few steps for any number of rules.
//!
//! Rules are text. Descriptors are bytes, because they are made of headers. A value that is not text matches `key`, and
//! `key=prefix*` if it has that prefix.

use std::collections::HashMap;

use super::policies::{EntryMatch, EnvoyRule};

/// What a rule does with a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescriptorAction {
    /// The policy with this name decides.
    Policy(Box<str>),
    /// The request is always admitted.
    Unlimited,
    /// The request is always denied.
    Denied,
}

/// All rules.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    domains: HashMap<Box<str>, Level>,
}

/// The rules that match the entries so far.
#[derive(Debug, Default)]
struct Level {
    /// The action if no entry follows.
    action: Option<DescriptorAction>,
    /// By the name of the next entry.
    names: HashMap<Box<[u8]>, Values>,
}

/// Levels by value, or by prefix.
type Levels = HashMap<Box<[u8]>, Level>;

/// The levels below one name, by value.
#[derive(Debug, Default)]
struct Values {
    exact: Levels,
    /// By length, the longest first.
    prefixes: Vec<(usize, Levels)>,
    any: Option<Box<Level>>,
}

impl Descriptors {
    /// Adds a rule. Returns false if another one has the same entries.
    pub(super) fn add(&mut self, rule: &EnvoyRule) -> bool {
        let mut level = self.domains.entry(rule.domain.as_str().into()).or_default();
        for entry in &rule.entries {
            level = level.below(entry);
        }
        level.action.replace(rule.action.clone()).is_none()
    }

    /// Returns the action for a descriptor with these names and values, if a rule matches.
    pub(super) fn find(&self, domain: &str, entries: &[(&[u8], &[u8])]) -> Option<&DescriptorAction> {
        self.domains.get(domain)?.find(entries)
    }
}

impl Level {
    fn below(&mut self, entry: &EntryMatch) -> &mut Self {
        match entry {
            EntryMatch::Exact(name, value) => self.values(name).exact.entry(value.as_bytes().into()).or_default(),
            EntryMatch::Prefix(name, start) => self.values(name).prefix(start),
            EntryMatch::Any(name) => self.values(name).any.get_or_insert_default(),
        }
    }

    fn values(&mut self, name: &str) -> &mut Values {
        self.names.entry(name.as_bytes().into()).or_default()
    }

    /// Returns the action of the most specific rule that matches. Each level of the tree is visited at most once.
    fn find(&self, entries: &[(&[u8], &[u8])]) -> Option<&DescriptorAction> {
        let [(name, value), rest @ ..] = entries else { return self.action.as_ref() };
        let values = self.names.get(*name)?;
        let exact = values.exact.get(*value);
        let starting = values.prefixes.iter().filter_map(|(len, levels)| levels.get(value.get(..*len)?));
        let mut levels = exact.into_iter().chain(starting).chain(values.any.as_deref());
        levels.find_map(|level| level.find(rest))
    }
}

impl Values {
    fn prefix(&mut self, start: &str) -> &mut Level {
        let index = match self.prefixes.binary_search_by(|(len, _)| start.len().cmp(len)) {
            Ok(index) => index,
            Err(index) => {
                self.prefixes.insert(index, (start.len(), HashMap::new()));
                index
            }
        };
        self.prefixes[index].1.entry(start.as_bytes().into()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[(&str, &[&str])]) -> Descriptors {
        let mut all = Descriptors::default();
        for (policy, entries) in texts {
            let entries = entries.iter().map(|text| EntryMatch::parse(text).expect("it is an entry")).collect();
            let rule =
                EnvoyRule { domain: "edge".to_owned(), entries, action: DescriptorAction::Policy((*policy).into()) };
            assert!(all.add(&rule), "the rules of a test are distinct");
        }
        all
    }

    fn found<'d, T: AsRef<[u8]>>(all: &'d Descriptors, entries: &[(&str, T)]) -> Option<&'d str> {
        let entries: Vec<_> = entries.iter().map(|(name, value)| (name.as_bytes(), value.as_ref())).collect();
        all.find("edge", &entries).map(|action| match action {
            DescriptorAction::Policy(name) => &**name,
            _ => "none",
        })
    }

    #[test]
    fn the_most_specific_rule_wins_in_any_order() {
        let all = rules(&[
            ("any", &["path"]),
            ("short", &["path=/a*"]),
            ("exact", &["path=/a/b"]),
            ("long", &["path=/a/*"]),
            ("empty", &["path="]),
        ]);
        for (value, expected) in
            [("/a/b", "exact"), ("/a/c", "long"), ("/ab", "short"), ("/b", "any"), ("", "empty"), ("/", "any")]
        {
            assert_eq!(found(&all, &[("path", value)]), Some(expected), "{value}");
        }
    }

    #[test]
    fn the_first_entry_in_which_rules_differ_decides() {
        let all = rules(&[("first", &["user=alice", "path"]), ("second", &["user", "path=/x"])]);
        assert_eq!(found(&all, &[("user", "alice"), ("path", "/x")]), Some("first"));
        assert_eq!(found(&all, &[("user", "bob"), ("path", "/x")]), Some("second"));
        assert_eq!(found(&all, &[("user", "bob"), ("path", "/y")]), None);
    }

    #[test]
    fn a_specific_entry_without_a_rule_does_not_hide_a_general_one() {
        let all = rules(&[("nested", &["user=alice", "path"]), ("other", &["user", "method"])]);
        assert_eq!(found(&all, &[("user", "alice"), ("method", "GET")]), Some("other"));
    }

    #[test]
    fn the_order_and_the_number_of_entries_must_match() {
        let all = rules(&[("both", &["a", "b"])]);
        assert_eq!(found(&all, &[("a", "1"), ("b", "2")]), Some("both"));
        for other in [&[("a", "1")][..], &[("b", "2"), ("a", "1")], &[("a", "1"), ("b", "2"), ("c", "3")], &[]] {
            assert_eq!(found(&all, other), None, "{other:?}");
        }
        assert_eq!(all.find("other", &[(b"a", b"1"), (b"b", b"2")]), None, "the domain must match, too");
    }

    #[test]
    fn a_prefix_that_ends_inside_a_character_does_not_match() {
        let all = rules(&[("e", &["word=e*"]), ("any", &["word"])]);
        assert_eq!(found(&all, &[("word", "é")]), Some("any"));
    }

    #[test]
    fn a_value_that_is_not_text_matches_its_prefix_or_any_value() {
        let all = rules(&[("start", &["path=/a/*"]), ("exact", &["path=/a/\u{fffd}"]), ("any", &["path"])]);
        assert_eq!(found(&all, &[("path", b"/a/\xff")]), Some("start"));
        assert_eq!(found(&all, &[("path", b"\xff/a/")]), Some("any"));
    }

    #[test]
    fn thousands_of_rules_are_found() {
        let names: Vec<String> = (0..10_000).map(|i| format!("user=u{i}")).collect();
        let prefixes: Vec<String> = (0..10_000).map(|i| format!("path=/p{i}/*")).collect();
        let texts: Vec<[&str; 2]> = names.iter().zip(&prefixes).map(|(n, p)| [n.as_str(), p.as_str()]).collect();
        let all = rules(&texts.iter().map(|entries| (entries[0], &entries[..])).collect::<Vec<_>>());
        assert_eq!(found(&all, &[("user", "u9999"), ("path", "/p9999/x")]), Some("user=u9999"));
        assert_eq!(found(&all, &[("user", "u9999"), ("path", "/p9998/x")]), None);
    }
}
