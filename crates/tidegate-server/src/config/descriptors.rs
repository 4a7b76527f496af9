//! [`Descriptors`]: which rule a descriptor of Envoy's falls under.
//!
//! A rule has as many entries as the descriptor, with the same names in the same order. Where several fit, the first entry
//! in which they differ decides: `key=value` goes before `key=prefix*` (the longer prefix first), and that before `key`. The
//! rules are a tree with one level an entry, so that a descriptor is found by a few lookups however many rules there are.
//!
//! Rules are text. Descriptors are bytes, as the headers that they are made of: one that is no text falls under `key`, and
//! under `key=prefix*` if it begins like that.

use std::collections::HashMap;

use super::policies::{EntryMatch, EnvoyRule};

/// What is to become of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The policy of this name decides.
    Policy(Box<str>),
    /// It is let through, always.
    Unlimited,
    /// It is never let through.
    Denied,
}

/// All rules, to be found by descriptor.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    domains: HashMap<Box<str>, Level>,
}

/// Everything below the entries that were read so far.
#[derive(Debug, Default)]
struct Level {
    /// If no entry follows.
    verdict: Option<Verdict>,
    /// By the name of the next entry.
    names: HashMap<Box<[u8]>, Values>,
}

/// Levels by value, or by the start of one.
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
    /// Adds a rule; false if there is one for the same entries already.
    pub(super) fn add(&mut self, rule: &EnvoyRule) -> bool {
        let mut level = self.domains.entry(rule.domain.as_str().into()).or_default();
        for entry in &rule.entries {
            level = level.below(entry);
        }
        level.verdict.replace(rule.verdict.clone()).is_none()
    }

    /// The verdict on a descriptor of these names and values, if there is a rule for it.
    pub(super) fn find(&self, domain: &str, entries: &[(&[u8], &[u8])]) -> Option<&Verdict> {
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

    /// The first that fits, from the most specific on. Each level of the tree is entered once at the most.
    fn find(&self, entries: &[(&[u8], &[u8])]) -> Option<&Verdict> {
        let [(name, value), rest @ ..] = entries else { return self.verdict.as_ref() };
        let values = self.names.get(*name)?;
        let exact = values.exact.get(*value);
        let starting = values.prefixes.iter().filter_map(|(len, levels)| levels.get(value.get(..*len)?));
        let mut levels = exact.into_iter().chain(starting).chain(values.any.as_deref());
        levels.find_map(|level| level.find(rest))
    }
}

impl Values {
    fn prefix(&mut self, start: &str) -> &mut Level {
        let place = match self.prefixes.binary_search_by(|(len, _)| start.len().cmp(len)) {
            Ok(place) => place,
            Err(place) => {
                self.prefixes.insert(place, (start.len(), HashMap::new()));
                place
            }
        };
        self.prefixes[place].1.entry(start.as_bytes().into()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[(&str, &[&str])]) -> Descriptors {
        let mut all = Descriptors::default();
        for (policy, entries) in texts {
            let entries = entries.iter().map(|text| EntryMatch::parse(text).expect("it is an entry")).collect();
            let rule = EnvoyRule { domain: "edge".to_owned(), entries, verdict: Verdict::Policy((*policy).into()) };
            assert!(all.add(&rule), "the rules of a test are distinct");
        }
        all
    }

    fn found<'d, T: AsRef<[u8]>>(all: &'d Descriptors, entries: &[(&str, T)]) -> Option<&'d str> {
        let entries: Vec<_> = entries.iter().map(|(name, value)| (name.as_bytes(), value.as_ref())).collect();
        all.find("edge", &entries).map(|verdict| match verdict {
            Verdict::Policy(name) => &**name,
            _ => "none",
        })
    }

    #[test]
    fn the_most_specific_rule_wins_whatever_their_order() {
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
    fn a_specific_entry_that_leads_nowhere_does_not_hide_a_general_one() {
        let all = rules(&[("nested", &["user=alice", "path"]), ("other", &["user", "method"])]);
        assert_eq!(found(&all, &[("user", "alice"), ("method", "GET")]), Some("other"));
    }

    #[test]
    fn entries_count_in_order_and_in_full_number() {
        let all = rules(&[("both", &["a", "b"])]);
        assert_eq!(found(&all, &[("a", "1"), ("b", "2")]), Some("both"));
        for other in [&[("a", "1")][..], &[("b", "2"), ("a", "1")], &[("a", "1"), ("b", "2"), ("c", "3")], &[]] {
            assert_eq!(found(&all, other), None, "{other:?}");
        }
        assert_eq!(all.find("other", &[(b"a", b"1"), (b"b", b"2")]), None, "the domain counts, too");
    }

    #[test]
    fn a_prefix_that_ends_inside_a_character_fits_nothing_and_breaks_nothing() {
        let all = rules(&[("e", &["word=e*"]), ("any", &["word"])]);
        assert_eq!(found(&all, &[("word", "é")]), Some("any"));
    }

    #[test]
    fn what_is_no_text_falls_under_the_start_that_it_has_or_under_the_name() {
        let all = rules(&[("start", &["path=/a/*"]), ("exact", &["path=/a/\u{fffd}"]), ("any", &["path"])]);
        assert_eq!(found(&all, &[("path", b"/a/\xff")]), Some("start"));
        assert_eq!(found(&all, &[("path", b"\xff/a/")]), Some("any"));
    }

    #[test]
    fn thousands_of_rules_are_no_matter() {
        let names: Vec<String> = (0..10_000).map(|i| format!("user=u{i}")).collect();
        let prefixes: Vec<String> = (0..10_000).map(|i| format!("path=/p{i}/*")).collect();
        let texts: Vec<[&str; 2]> = names.iter().zip(&prefixes).map(|(n, p)| [n.as_str(), p.as_str()]).collect();
        let all = rules(&texts.iter().map(|entries| (entries[0], &entries[..])).collect::<Vec<_>>());
        assert_eq!(found(&all, &[("user", "u9999"), ("path", "/p9999/x")]), Some("user=u9999"));
        assert_eq!(found(&all, &[("user", "u9999"), ("path", "/p9998/x")]), None);
    }
}
