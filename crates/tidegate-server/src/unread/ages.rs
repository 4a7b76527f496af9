//! [`Ages`]: since when things wait, by a count of looks instead of a clock.

use std::collections::VecDeque;

/// How many things wait since which look; the oldest first.
#[derive(Debug, Default)]
pub(super) struct Ages(VecDeque<(u64, usize)>);

impl Ages {
    /// Adds one that waits since now; the look to remove it by, which is later if others were added later.
    #[inline]
    pub(super) fn add(&mut self, now: u64) -> u64 {
        match self.0.back_mut() {
            Some((last, count)) if *last >= now => {
                *count += 1;
                *last
            }
            _ => {
                self.0.push_back((now, 1));
                now
            }
        }
    }

    /// Removes one that was added by this look.
    #[inline]
    pub(super) fn remove(&mut self, since: u64) {
        if let Ok(place) = self.0.binary_search_by_key(&since, |(look, _)| *look) {
            self.0[place].1 -= 1;
        }
        while self.0.front().is_some_and(|(_, count)| *count == 0) {
            self.0.pop_front();
        }
    }

    /// Since when the oldest waits.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.0.front().map(|(since, _)| *since)
    }
}

#[cfg(test)]
mod tests {
    use super::Ages;

    #[test]
    fn the_oldest_is_the_one_that_was_added_first_and_not_removed() {
        let mut ages = Ages::default();
        assert_eq!(ages.oldest(), None);
        for now in [3, 3, 4, 6] {
            assert_eq!(ages.add(now), now);
        }
        assert_eq!(ages.add(5), 6, "another was added later");
        ages.remove(4);
        assert_eq!(ages.oldest(), Some(3));
        ages.remove(3);
        assert_eq!(ages.oldest(), Some(3));
        ages.remove(3);
        assert_eq!(ages.oldest(), Some(6));
        ages.remove(6);
        ages.remove(6);
        assert_eq!(ages.oldest(), None);
        assert!(ages.0.is_empty());
    }
}
