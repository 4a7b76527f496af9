//! [`Turns`]: who waits for a key waits in a line, and only the first of it asks the store.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tidegate::Key;
use tokio::sync::Notify;

/// The lines of all keys that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    lines: Mutex<HashMap<Key<'static>, Line>>,
    waiting: AtomicUsize,
}

/// A key's line is there as long as somebody is in it.
#[derive(Debug, Default)]
struct Line {
    turn: Arc<Turn>,
    members: usize,
}

/// The line of one key. tokio's lock is handed over in the order in which it was asked for, and forgets who no longer waits.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) first: tokio::sync::Mutex<()>,
    /// Something was given back: the first may ask again.
    pub(crate) freed: Notify,
}

/// A place in a line, until it is dropped.
#[derive(Debug)]
pub(crate) struct InLine<'q> {
    turns: &'q Turns,
    key: Key<'static>,
    turn: Arc<Turn>,
}

impl Turns {
    /// A place at the end of a key's line, unless as many as may do wait already.
    pub(crate) fn enter(&self, key: &Key<'_>, most: usize) -> Option<InLine<'_>> {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        if waiting >= most {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let key = key.clone().into_owned();
        let turn = {
            let mut lines = self.lines.lock();
            let line = lines.entry(key.clone()).or_default();
            line.members += 1;
            Arc::clone(&line.turn)
        };
        Some(InLine { turns: self, key, turn })
    }

    /// Lets the first in a key's line ask again.
    pub(crate) fn freed(&self, key: &Key<'_>) {
        let turn = self.lines.lock().get(key).map(|line| Arc::clone(&line.turn));
        if let Some(turn) = turn {
            turn.freed.notify_waiters();
        }
    }

    /// How many are in line or at its head.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many keys have a line.
    #[cfg(test)]
    fn lines(&self) -> usize {
        self.lines.lock().len()
    }
}

impl InLine<'_> {
    pub(crate) fn turn(&self) -> &Turn {
        &self.turn
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.turns.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut lines = self.turns.lines.lock();
        if let Some(line) = lines.get_mut(&self.key) {
            line.members -= 1;
            if line.members == 0 {
                lines.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Key;

    use super::Turns;

    #[test]
    fn a_line_is_there_as_long_as_somebody_is_in_it() {
        let turns = Turns::default();
        let key = Key::new("upstream").expect("a key");
        let first = turns.enter(&key, 10).expect("room");
        let second = turns.enter(&key, 10).expect("room");
        assert_eq!((turns.waiting(), turns.lines()), (2, 1));
        drop(first);
        assert_eq!((turns.waiting(), turns.lines()), (1, 1));
        drop(second);
        assert_eq!((turns.waiting(), turns.lines()), (0, 0));
    }

    #[test]
    fn many_who_come_and_go_at_once_leave_nothing_behind() {
        let turns = Turns::default();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let turns = &turns;
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let key = [["a", "b", "c"][(thread + round) % 3]].concat();
                        let here = turns.enter(&Key::new(&key).expect("a key"), 100).expect("room");
                        let there = turns.enter(&Key::new(&key).expect("a key"), 100).expect("room");
                        assert!(std::ptr::eq(here.turn(), there.turn()), "one key, one line");
                    }
                });
            }
        });
        assert_eq!((turns.waiting(), turns.lines()), (0, 0));
    }

    #[test]
    fn no_more_wait_than_may() {
        let turns = Turns::default();
        let [one, two] = ["one", "two"].map(|key| Key::new(key).expect("a key"));
        let _first = turns.enter(&one, 1).expect("room");
        assert!(turns.enter(&two, 1).is_none());
        assert_eq!((turns.waiting(), turns.lines()), (1, 1));
    }
}
