//! [`Journal`]: a line for each thing that happened to the service, and for each thing that a person did to a key.

use std::{collections::VecDeque, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tidegate::Key;

use super::labels::{Eyes, Labeller};

/// How many lines are kept; the log of the process has them all.
const MOST: usize = 200;

/// What a line tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Started,
    Reload,
    ReloadRefused,
    StoreLost,
    StoreBack,
    NoRoom,
    /// Another degraded state has begun.
    Degraded,
    /// A degraded state has ended.
    Recovered,
    /// What people do: the audit log.
    Reset,
    Override,
    Lift,
}

impl Event {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Reload => "reload",
            Self::ReloadRefused => "reload_refused",
            Self::StoreLost => "store_lost",
            Self::StoreBack => "store_back",
            Self::NoRoom => "no_room",
            Self::Degraded => "degraded",
            Self::Recovered => "recovered",
            Self::Reset => "reset",
            Self::Override => "override",
            Self::Lift => "lift",
        }
    }
}

/// The newest lines.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    next: u64,
    lines: VecDeque<Line>,
}

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) id: u64,
    pub(crate) at_ms: u64,
    pub(crate) event: Event,
    text: String,
    /// In place of a text, what was done to whom: the key and the reason are only for those who may see keys.
    about: Option<About>,
    pub(crate) by: Option<IpAddr>,
}

/// What was done to a key.
#[derive(Debug, Clone)]
struct About {
    deed: Deed<'static>,
    policy: Arc<str>,
}

/// What somebody did to a key, in words around it.
#[derive(Debug, Clone)]
pub(crate) struct Deed<'a> {
    pub(crate) before: &'static str,
    pub(crate) key: Key<'a>,
    pub(crate) after: String,
    /// Why, as they said: it may well name somebody.
    pub(crate) note: String,
}

impl Line {
    /// The text, for those who look with these eyes; `hides` tells of a policy whether its keys are hashed.
    pub(crate) fn text(&self, eyes: Eyes, labeller: &Labeller, hides: impl Fn(&str) -> bool) -> String {
        let Some(About { deed: Deed { before, key, after, note }, policy }) = &self.about else {
            return self.text.clone();
        };
        if eyes == Eyes::Shut {
            return format!("{before} a key under {policy}{after}");
        }
        let label = labeller.label(key, hides(policy), eyes).label;
        let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
        format!("{before} {label} under {policy}{after}{note}")
    }
}

impl Journal {
    /// Writes down what happened to the service.
    pub(crate) fn happened(&self, event: Event, at_ms: u64, text: impl Into<String>) {
        self.push(Line { id: 0, at_ms, event, text: text.into(), about: None, by: None });
    }

    /// Writes down what somebody did to a key.
    pub(crate) fn done(&self, event: Event, at_ms: u64, by: Option<IpAddr>, policy: &str, deed: Deed<'_>) {
        let deed = Deed { key: deed.key.into_owned(), ..deed };
        let about = About { deed, policy: policy.into() };
        self.push(Line { id: 0, at_ms, event, text: String::new(), about: Some(about), by });
    }

    fn push(&self, mut line: Line) {
        let mut lines = self.0.lock();
        lines.next += 1;
        line.id = lines.next;
        if lines.lines.len() == MOST {
            lines.lines.pop_front();
        }
        lines.lines.push_back(line);
    }

    /// The lines after this one, oldest first.
    pub(crate) fn after(&self, id: u64) -> Vec<Line> {
        self.0.lock().lines.iter().filter(|line| line.id > id).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Key;

    use super::{Deed, Event, Journal, MOST};
    use crate::insight::labels::{Eyes, Labeller};

    #[test]
    fn the_newest_lines_are_kept_and_told_once() {
        let journal = Journal::default();
        (0..MOST + 5).for_each(|i| journal.happened(Event::Reload, i as u64, format!("{i}")));
        let lines = journal.after(0);
        assert_eq!((lines.len(), lines[0].at_ms), (MOST, 5));
        let last = lines[MOST - 1].id;
        assert!(journal.after(last).is_empty());
        journal.happened(Event::Started, 9, "again");
        assert_eq!(journal.after(last).len(), 1);
    }

    #[test]
    fn a_key_is_named_to_those_only_who_may_see_it() {
        let (journal, labeller) = (Journal::default(), Labeller::default());
        let key = Key::new("alice").unwrap();
        for policy in ["api", "secret"] {
            let after = ": banned".to_owned();
            let deed = Deed { before: "override of", key: key.clone(), after, note: "Alice Smith".to_owned() };
            journal.done(Event::Override, 1, None, policy, deed);
        }
        let text = |line: usize, eyes| journal.after(0)[line].text(eyes, &labeller, |policy| policy == "secret");
        assert_eq!(text(0, Eyes::Open), "override of alice under api: banned (Alice Smith)");
        assert_eq!(text(0, Eyes::Shut), "override of a key under api: banned");
        assert!(text(1, Eyes::Open).starts_with("override of #"), "the policy has its keys hashed");
        assert_eq!(text(1, Eyes::Shut), "override of a key under secret: banned");
    }
}
