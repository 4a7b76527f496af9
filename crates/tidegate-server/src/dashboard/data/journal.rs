//! [`Journal`]: the newest events of the service and the newest changes by people.

use std::{collections::VecDeque, net::IpAddr};

use parking_lot::Mutex;

use crate::service::{Event, KeyChange, KeyLabeller, KeyVisibility};

/// Number of events that are kept. The log of the process has all of them.
const MAX_RECORDS: usize = 200;

/// The newest events.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<VecDeque<JournalRecord>>);

/// One event.
#[derive(Debug, Clone)]
pub(crate) struct JournalRecord {
    pub(crate) id: u64,
    pub(crate) at_ms: u64,
    pub(crate) event: Event,
    content: Content,
    pub(crate) by: Option<IpAddr>,
}

#[derive(Debug, Clone)]
enum Content {
    Text(String),
    /// The key and the note are only for viewers who may see keys.
    Change(KeyChange<'static>),
}

impl JournalRecord {
    /// Returns the text. `hides` returns whether a policy hides its keys.
    pub(crate) fn text(
        &self,
        visibility: KeyVisibility,
        labeller: &KeyLabeller,
        hides: impl Fn(&str) -> bool,
    ) -> String {
        let KeyChange { before, key, policy, after, note } = match &self.content {
            Content::Text(text) => return text.clone(),
            Content::Change(change) => change,
        };
        if visibility == KeyVisibility::Hidden {
            return format!("{before} a key under {policy}{after}");
        }
        let label = labeller.label(key, hides(policy), visibility).label;
        let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
        format!("{before} {label} under {policy}{after}{note}")
    }
}

impl Journal {
    /// Adds an event of the service.
    pub(crate) fn add_event(&self, event: Event, at_ms: u64, text: impl Into<String>) {
        self.push(event, at_ms, Content::Text(text.into()), None);
    }

    /// Adds a change of a key by a person.
    pub(crate) fn add_change(&self, event: Event, at_ms: u64, by: Option<IpAddr>, change: KeyChange<'_>) {
        let change = KeyChange { key: change.key.into_owned(), ..change };
        self.push(event, at_ms, Content::Change(change), by);
    }

    fn push(&self, event: Event, at_ms: u64, content: Content, by: Option<IpAddr>) {
        let mut records = self.0.lock();
        let id = records.back().map_or(1, |last| last.id + 1);
        if records.len() == MAX_RECORDS {
            records.pop_front();
        }
        records.push_back(JournalRecord { id, at_ms, event, content, by });
    }

    /// Returns the events after this one, oldest first.
    pub(crate) fn after(&self, id: u64) -> Vec<JournalRecord> {
        self.0.lock().iter().filter(|record| record.id > id).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Key;

    use super::{Journal, MAX_RECORDS};
    use crate::service::{Event, KeyChange, KeyLabeller, KeyVisibility};

    #[test]
    fn the_newest_events_are_kept_and_returned_once() {
        let journal = Journal::default();
        (0..MAX_RECORDS + 5).for_each(|i| journal.add_event(Event::Reload, i as u64, format!("{i}")));
        let lines = journal.after(0);
        assert_eq!((lines.len(), lines[0].at_ms), (MAX_RECORDS, 5));
        let last = lines[MAX_RECORDS - 1].id;
        assert!(journal.after(last).is_empty());
        journal.add_event(Event::Started, 9, "again");
        assert_eq!(journal.after(last).len(), 1);
    }

    #[test]
    fn only_viewers_who_may_see_keys_get_the_key_and_the_note() {
        let (journal, labeller) = (Journal::default(), KeyLabeller::default());
        let key = Key::new("alice").unwrap();
        for policy in ["api", "secret"] {
            let (before, after, note) = ("ban of", " for 1h".to_owned(), "Alice Smith".to_owned());
            let change = KeyChange { before, key: key.clone(), policy: policy.into(), after, note };
            journal.add_change(Event::Ban, 1, None, change);
        }
        let text =
            |line: usize, visibility| journal.after(0)[line].text(visibility, &labeller, |policy| policy == "secret");
        assert_eq!(text(0, KeyVisibility::Visible), "ban of alice under api for 1h (Alice Smith)");
        assert_eq!(text(0, KeyVisibility::Hidden), "ban of a key under api for 1h");
        assert!(text(1, KeyVisibility::Visible).starts_with("ban of #"), "the policy hides its keys");
        assert_eq!(text(1, KeyVisibility::Hidden), "ban of a key under secret for 1h");
    }
}
