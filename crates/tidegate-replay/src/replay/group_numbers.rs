//! [`GroupNumbers`]: numbers the groups, and the clients of each group.

use crate::client_numbers::ClientNumbers;

/// Maximum number of groups. Requests of further groups form one group.
pub(super) const MAX_GROUPS: usize = 1_000;

/// Groups and their members. A member is a client in a group: a client that sends requests of two groups is a member of both.
#[derive(Debug, Default)]
pub(super) struct GroupNumbers {
    groups: ClientNumbers,
    members: ClientNumbers,
    /// Group of each member.
    group_of: Vec<u32>,
    key: Vec<u8>,
    has_overflow: bool,
}

impl GroupNumbers {
    /// Returns the number of the member that sends a request.
    #[inline]
    pub(super) fn member(&mut self, group: &[u8], key: &[u8]) -> u32 {
        let group = match self.groups.find(group) {
            Some(group) => group,
            None if self.groups.len() < MAX_GROUPS => self.groups.number(group),
            None => {
                self.has_overflow = true;
                Self::overflow()
            }
        };
        self.key.clear();
        self.key.extend_from_slice(&group.to_le_bytes());
        self.key.extend_from_slice(key);
        let member = self.members.number(&self.key);
        if self.group_of.len() < self.members.len() {
            self.group_of.push(group);
        }
        member
    }

    /// Returns the number of the group for requests of further groups.
    pub(super) fn overflow() -> u32 {
        u32::try_from(MAX_GROUPS).unwrap_or(u32::MAX)
    }

    pub(super) fn has_overflow(&self) -> bool {
        self.has_overflow
    }

    /// Returns the number of groups, without the one for further groups.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns the group of a member.
    pub(super) fn group_of(&self, member: u32) -> u32 {
        self.group_of[member as usize]
    }

    /// Returns the name of a group. The group for further groups has none.
    pub(super) fn name(&self, group: u32) -> Option<&[u8]> {
        (group != Self::overflow()).then(|| self.groups.key(group))
    }
}

#[cfg(test)]
mod tests {
    use super::{GroupNumbers, MAX_GROUPS};

    #[test]
    fn groups_beyond_the_maximum_form_one_group() {
        let mut numbers = GroupNumbers::default();
        let member = |numbers: &mut GroupNumbers, group: usize| numbers.member(group.to_string().as_bytes(), b"alice");
        for group in 0..MAX_GROUPS {
            assert_eq!(member(&mut numbers, group) as usize, group, "a client is a member of each of its groups");
        }
        let (one, other) = (member(&mut numbers, MAX_GROUPS), member(&mut numbers, MAX_GROUPS + 1));
        assert!(one == other && numbers.has_overflow() && numbers.len() == MAX_GROUPS);
        assert_eq!(numbers.name(numbers.group_of(one)), None);
        assert_eq!(numbers.name(numbers.group_of(7)), Some(&b"7"[..]));
        assert_eq!(member(&mut numbers, 7), 7);
    }
}
