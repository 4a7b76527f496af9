//! [`Ages`]: how long items have waited, measured in checks instead of by a clock.

use std::collections::VecDeque;

/// The number of items that wait since each check, oldest first.
#[derive(Debug, Default)]
pub(super) struct Ages(VecDeque<(u64, usize)>);

impl Ages {
    /// Adds an item. Returns the check to remove it by, which is later than `now` if others were added later.
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

    /// Removes an item that was added at this check.
    #[inline]
    pub(super) fn remove(&mut self, since: u64) {
        if let Ok(index) = self.0.binary_search_by_key(&since, |(check, _)| *check) {
            self.0[index].1 -= 1;
        }
        while self.0.front().is_some_and(|(_, count)| *count == 0) {
            self.0.pop_front();
        }
    }

    /// Returns the check since which the oldest item waits.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.0.front().map(|(since, _)| *since)
    }
}

#[cfg(test)]
mod tests {
    use super::Ages;

    #[test]
    fn the_oldest_item_is_the_first_one_that_was_not_removed() {
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
