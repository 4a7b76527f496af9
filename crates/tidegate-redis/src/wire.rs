//! What the script is asked and what it answers, as bytes; `scripts/decide.lua` tells the layout.

use std::{collections::HashSet, ops::Range, time::Duration};

use tidegate::{
    Algorithm, Buckets, Burst, Cost, Entry, Limit, Op, Policy, Timestamp,
    remote::{self, Arithmetic, Shown, Told},
};

use crate::trouble::Trouble;

/// What is done with a group of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Decide(Op),
    Refund,
    Reset,
    Inspect,
    /// Something about the override of a key.
    Override(OverrideStep),
    /// Something about the list of a policy's overrides.
    List(ListStep),
}

/// What is done with the override of a key; `scripts/overriding.lua` tells what is asked and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverrideStep {
    Set = 1,
    Lift = 2,
    Show = 3,
}

/// What is done with a list of overrides; `scripts/listing.lua` tells what is asked and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListStep {
    Room = 1,
    Put = 2,
    Remove = 3,
    Page = 4,
}

/// One key of a group.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) key: Vec<u8>,
    pub(crate) policy: Vec<u8>,
    pub(crate) limits: usize,
    pub(crate) cost: u64,
    pub(crate) charged_at: u64,
}

/// A decision that is made in one step, or another operation on one key.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) action: Action,
    pub(crate) parts: Vec<Part>,
    /// In server time; what runs later does nothing. Where times are given, the time.
    pub(crate) deadline: u64,
}

impl Part {
    pub(crate) fn new(key: Vec<u8>, policy: &Policy, cost: Cost, charged_at: Option<Timestamp>) -> Self {
        let (policy, limits) = encode_policy(policy);
        Self { key, policy, limits, cost: cost.get(), charged_at: charged_at.map_or(0, Timestamp::as_micros) }
    }

    /// A part with which a step is asked for, and what that needs to know.
    pub(crate) fn of_step(key: Vec<u8>, policy: &Policy, step: u8, asked: &[u8]) -> Self {
        let mut part = Self::new(key, policy, Cost::ONE, None);
        part.policy.push(step);
        part.policy.extend_from_slice(asked);
        part
    }
}

pub(crate) fn put(bytes: &mut Vec<u8>, number: u64, width: usize) {
    bytes.extend_from_slice(&number.to_be_bytes()[8 - width..]);
}

pub(crate) fn encode_policy(policy: &Policy) -> (Vec<u8>, usize) {
    let limits = policy.limits().len();
    let mut bytes = Vec::with_capacity(3 + 21 * limits);
    bytes.push(match remote::arithmetic(policy) {
        Arithmetic::Log => 1,
        Arithmetic::Counter => 2,
        Arithmetic::Buckets => 3,
        Arithmetic::Fixed => 4,
        Arithmetic::Gcra => 5,
    });
    put(&mut bytes, limits as u64, 1);
    for terms in remote::terms(policy) {
        put(&mut bytes, terms.window_us, 6);
        put(&mut bytes, terms.buckets, 2);
        put(&mut bytes, terms.drain, 6);
    }
    bytes.push(u8::from(policy.mode() == tidegate::Mode::Shadow));
    for terms in remote::terms(policy) {
        put(&mut bytes, terms.capacity, 7);
    }
    (bytes, limits)
}

/// The limits and the algorithm that [`encode_policy`] has told.
pub(crate) fn decode_policy(reader: &mut Reader<'_>) -> Result<Policy, Trouble> {
    let (kind, limits) = (reader.number(1)?, reader.number(1)?);
    let grids: Vec<_> =
        (0..limits).map(|_| Ok((reader.number(6)?, reader.number(2)?, reader.number(6)?))).collect::<Result<_, _>>()?;
    reader.number(1)?;
    let capacities: Vec<_> = (0..limits).map(|_| reader.number(7)).collect::<Result<_, _>>()?;
    let limits = grids.iter().zip(&capacities).map(|((window, _, drain), capacity)| {
        let max = if kind == 5 { *drain } else { *capacity };
        Limit::new(max, Duration::from_micros(*window)).map_err(|_| Trouble::Garbled)
    });
    let policy = Policy::unnamed(limits.collect::<Result<Vec<_>, _>>()?).map_err(|_| Trouble::Garbled)?;
    let bursts = || capacities.iter().map(|capacity| Burst::new(*capacity)).collect::<Result<Vec<_>, _>>();
    Ok(match kind {
        1 => policy,
        2 => policy.with_algorithm(Algorithm::SlidingCounter),
        3 => {
            let buckets = Buckets::new(grids[0].1).map_err(|_| Trouble::Garbled)?;
            policy.with_algorithm(Algorithm::SlidingBuckets(buckets))
        }
        4 => policy.with_algorithm(Algorithm::FixedWindow),
        _ if grids.iter().zip(&capacities).all(|(grid, capacity)| grid.2 == *capacity) => {
            policy.with_algorithm(Algorithm::Gcra(None))
        }
        _ => policy.with_bursts(bursts().map_err(|_| Trouble::Garbled)?).map_err(|_| Trouble::Garbled)?,
    })
}

/// The arguments of one call of the script.
#[derive(Debug, Default)]
pub(crate) struct Call<'a> {
    pub(crate) keys: Vec<&'a [u8]>,
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// Added to an operation if a key of it comes earlier in the call, too.
const AGAIN: u8 = 8;

impl<'a> Call<'a> {
    /// A call for `groups`, at the server's time or at those given. Keys outlive their use by `grace_ms`.
    pub(crate) fn new(groups: impl IntoIterator<Item = &'a Group>, given: bool, grace_ms: u32) -> Self {
        let mut header = Vec::with_capacity(5);
        header.push(u8::from(given));
        put(&mut header, grace_ms.into(), 4);
        let mut call = Self { keys: Vec::new(), arguments: vec![header, Vec::new()] };
        let mut seen = HashSet::new();
        let mut encoded = Vec::new();
        let (mut run, mut parts) = (Run::default(), Vec::new());
        for group in groups {
            let mut what = match group.action {
                Action::Decide(Op::Check) => 0,
                Action::Decide(Op::Peek) => 1,
                Action::Decide(Op::Charge) => 2,
                Action::Refund => 3,
                Action::Reset => 4,
                Action::Inspect => 5,
                Action::Override(_) => 6,
                Action::List(_) => 7,
            };
            parts.clear();
            for part in &group.parts {
                let number = call.policy_number(&part.policy);
                put(&mut parts, number as u64, 2);
                put(&mut parts, part.cost, 7);
                put(&mut parts, part.charged_at, 7);
                call.keys.push(&part.key);
                if !seen.insert(part.key.as_slice()) {
                    what |= AGAIN;
                }
            }
            let is_like = run.what == what && run.parts == parts;
            if run.count > 0 && is_like && (!given || run.deadline == group.deadline) {
                run.count += 1;
                // Whoever is found late too soon asks again.
                run.deadline = run.deadline.min(group.deadline);
            } else {
                run.put(&mut encoded);
                (run.what, run.count, run.deadline) = (what, 1, group.deadline);
                std::mem::swap(&mut run.parts, &mut parts);
            }
        }
        run.put(&mut encoded);
        call.arguments[1] = encoded;
        call
    }

    fn policy_number(&mut self, policy: &[u8]) -> usize {
        let known = self.arguments[2..].iter().position(|other| other == policy);
        known.unwrap_or_else(|| {
            self.arguments.push(policy.to_vec());
            self.arguments.len() - 3
        }) + 1
    }
}

/// Groups that follow each other and differ in nothing but their keys.
#[derive(Default)]
struct Run {
    what: u8,
    parts: Vec<u8>,
    count: u64,
    deadline: u64,
}

impl Run {
    fn put(&self, bytes: &mut Vec<u8>) {
        if self.count > 0 {
            bytes.extend_from_slice(&[self.what, u8::try_from(self.parts.len() / 16).unwrap_or(u8::MAX)]);
            put(bytes, self.count, 2);
            put(bytes, self.deadline, 7);
            bytes.extend_from_slice(&self.parts);
        }
    }
}

impl Group {
    /// Whether it may change a state.
    pub(crate) fn may_write(&self) -> bool {
        use Action::{Decide, Inspect, List, Override};
        !matches!(self.action, Decide(Op::Peek) | Inspect | Override(OverrideStep::Show) | List(ListStep::Page))
    }

    /// Whether it is a decision that charged, as its reply tells.
    pub(crate) fn has_charged(&self, reply: &[u8]) -> bool {
        let mut reader = Reader::new(reply);
        matches!(self.action, Action::Decide(_))
            && self.parts.iter().any(|part| reader.part(part.limits).is_ok_and(|part| part.charged))
    }
}

/// What became of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    /// It was done; the bytes of its reply.
    Done(Range<usize>),
    /// It came after its deadline, and nothing was done.
    Late,
    Failed(Trouble),
}

/// The server's time of a reply, and what became of each group.
pub(crate) fn read_reply<'a>(
    reply: &[u8],
    groups: impl IntoIterator<Item = &'a Group>,
) -> Result<(u64, Vec<Status>), Trouble> {
    let mut reader = Reader { bytes: reply, at: 0 };
    let now = reader.number(7)?;
    let mut statuses = Vec::new();
    for group in groups {
        statuses.push(match reader.number(1)? {
            0 => {
                let start = reader.at;
                reader.skip_group(group)?;
                Status::Done(start..reader.at)
            }
            1 => Status::Late,
            _ => {
                let length = reader.number(2)?;
                let text = String::from_utf8_lossy(reader.take(usize::try_from(length).unwrap_or(usize::MAX))?);
                Status::Failed(Trouble::from_message(&text))
            }
        });
    }
    Ok((now, statuses))
}

/// What the script tells of one part.
#[derive(Debug)]
pub(crate) struct PartReply {
    pub(crate) charged: bool,
    pub(crate) returned: bool,
    pub(crate) joined: bool,
    pub(crate) at: Timestamp,
    /// Of the limits in force.
    pub(crate) told: Vec<Told>,
    pub(crate) by: Option<By>,
}

/// The override that decided.
#[derive(Debug)]
pub(crate) enum By {
    /// Other limits, and the whole wait of a denial.
    Limits(Box<Policy>, Option<u64>),
    Ban {
        for_good: bool,
    },
    Exempt,
}

/// What was found of a state.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) newest: Timestamp,
    pub(crate) shown: Vec<Shown>,
    pub(crate) by: Option<By>,
}

/// Reads a reply bit by bit; one that is cut off is [`Trouble::Garbled`].
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

const BY_LIMITS: u64 = 16;
const BAN: u64 = 32;
const EXEMPT: u64 = 64;
const FOR_GOOD: u64 = 128;
const PER_LIMIT: usize = 21;
const PER_ENTRY: usize = 23;

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Trouble> {
        let end = self.at.checked_add(length).ok_or(Trouble::Garbled)?;
        let taken = self.bytes.get(self.at..end).ok_or(Trouble::Garbled)?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn number(&mut self, width: usize) -> Result<u64, Trouble> {
        Ok(self.take(width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn signed(&mut self) -> Result<i64, Trouble> {
        Ok(self.number(8)?.cast_signed())
    }

    fn skip_group(&mut self, group: &Group) -> Result<(), Trouble> {
        for part in &group.parts {
            match group.action {
                Action::Decide(_) | Action::Refund => self.skip_part(part.limits)?,
                Action::Reset => {
                    self.take(1)?;
                }
                Action::Inspect => self.skip_found(part.limits)?,
                Action::Override(_) | Action::List(_) => {
                    self.bytes(4)?;
                }
            }
        }
        Ok(())
    }

    fn skip_part(&mut self, limits: usize) -> Result<(), Trouble> {
        let flags = self.number(1)?;
        self.take(7)?;
        let limits = match flags {
            _ if flags & BY_LIMITS != 0 => {
                let limits = self.skip_policy()?;
                self.take(7)?;
                limits
            }
            _ if flags & EXEMPT != 0 => 0,
            _ => limits,
        };
        self.take(PER_LIMIT * limits)?;
        Ok(())
    }

    fn skip_found(&mut self, limits: usize) -> Result<(), Trouble> {
        let flags = self.number(1)?;
        if flags == 0 {
            return Ok(());
        }
        self.take(7)?;
        let limits = if flags & BY_LIMITS == 0 { limits } else { self.skip_policy()? };
        for _ in 0..limits {
            self.take(25)?;
            let entries = self.number(2)?;
            self.take(PER_ENTRY * usize::try_from(entries).unwrap_or(0))?;
        }
        Ok(())
    }

    /// Passes over a policy; how many limits it has.
    fn skip_policy(&mut self) -> Result<usize, Trouble> {
        self.take(1)?;
        let limits = usize::try_from(self.number(1)?).unwrap_or(0);
        self.take(1 + 21 * limits)?;
        Ok(limits)
    }

    pub(crate) fn part(&mut self, limits: usize) -> Result<PartReply, Trouble> {
        let flags = self.number(1)?;
        let at = Timestamp::from_micros(self.number(7)?);
        let mut by = self.by(flags)?;
        let limits = match &mut by {
            Some(By::Limits(policy, retry)) => {
                *retry = Some(self.number(7)?).filter(|wait| *wait > 0);
                policy.limits().len()
            }
            Some(By::Exempt) => 0,
            _ => limits,
        };
        let told = (0..limits).map(|_| self.told()).collect::<Result<_, _>>()?;
        let is = |bit| flags & bit != 0;
        Ok(PartReply { charged: is(1), returned: is(4), joined: is(8), at, told, by })
    }

    fn by(&mut self, flags: u64) -> Result<Option<By>, Trouble> {
        if flags < BY_LIMITS {
            return Ok(None);
        }
        Ok(Some(if flags & BY_LIMITS != 0 {
            By::Limits(Box::new(decode_policy(self)?), None)
        } else if flags & BAN != 0 {
            By::Ban { for_good: flags & FOR_GOOD != 0 }
        } else {
            By::Exempt
        }))
    }

    fn told(&mut self) -> Result<Told, Trouble> {
        let (used, retry, reset) = (self.number(7)?, self.number(7)?, self.number(7)?);
        Ok(Told { used, retry_after_us: (retry > 0).then_some(retry), reset_after_us: reset })
    }

    /// Whether there was a state to forget.
    pub(crate) fn found(&mut self) -> Result<bool, Trouble> {
        Ok(self.number(1)? != 0)
    }

    /// What there is to show, if there is a state.
    pub(crate) fn state(&mut self, limits: usize) -> Result<Option<Found>, Trouble> {
        let flags = self.number(1)?;
        if flags == 0 {
            return Ok(None);
        }
        let newest = Timestamp::from_micros(self.number(7)?);
        let by = self.by(flags)?;
        let limits = match &by {
            Some(By::Limits(policy, _)) => policy.limits().len(),
            _ => limits,
        };
        let shown = (0..limits).map(|_| self.shown()).collect::<Result<_, _>>()?;
        Ok(Some(Found { newest, shown, by }))
    }

    /// Bytes with their number before them, which is told in `width` bytes.
    pub(crate) fn bytes(&mut self, width: usize) -> Result<&'a [u8], Trouble> {
        let length = self.number(width)?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// What has not been read yet.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// What an inspection tells of one limit.
    fn shown(&mut self) -> Result<Shown, Trouble> {
        let (used, reset_after_us, next_free_after_us) = (self.number(7)?, self.number(7)?, self.number(7)?);
        let unlisted = usize::try_from(self.number(4)?).unwrap_or(usize::MAX);
        let time = |micros: i64| Timestamp::from_micros(micros.max(0).cast_unsigned());
        let entries = (0..self.number(2)?)
            .map(|_| Ok(Entry { first: time(self.signed()?), last: time(self.signed()?), units: self.number(7)? }))
            .collect::<Result<_, Trouble>>()?;
        Ok(Shown { used, reset_after_us, next_free_after_us, entries, unlisted })
    }
}

#[cfg(test)]
mod tests {
    use tidegate::{Cost, Op, Policy};

    use super::{Action, Call, Group, Part};

    fn group(op: Op, key: &str, cost: u64, deadline: u64) -> Group {
        let policy = Policy::new("p", ["5/1s".parse().expect("a limit")]).expect("a policy");
        let cost = Cost::new(cost).expect("in range");
        let part = Part::new(key.as_bytes().to_vec(), &policy, cost, None);
        Group { action: Action::Decide(op), parts: vec![part], deadline }
    }

    /// Of each run: the operation, how many groups, the deadline.
    fn runs(groups: &[Group], given: bool) -> Vec<(u8, u8, u8)> {
        let call = Call::new(groups, given, 100);
        assert_eq!(call.keys.len(), groups.len());
        call.arguments[1].chunks(27).map(|run| (run[0], run[3], run[10])).collect()
    }

    #[test]
    fn groups_that_differ_in_nothing_but_their_keys_are_told_once_with_the_earliest_deadline() {
        let alike = [group(Op::Check, "a", 1, 9), group(Op::Check, "b", 1, 7), group(Op::Check, "c", 1, 8)];
        assert_eq!(runs(&alike, false), [(0, 3, 7)]);
        assert_eq!(runs(&alike, true), [(0, 1, 9), (0, 1, 7), (0, 1, 8)], "times that are given are each its own");
        let unlike = [group(Op::Check, "a", 1, 9), group(Op::Check, "b", 2, 9), group(Op::Charge, "c", 2, 9)];
        assert_eq!(runs(&unlike, false), [(0, 1, 9), (0, 1, 9), (2, 1, 9)]);
        assert_eq!(runs(&[], false), []);
    }

    #[test]
    fn a_key_that_comes_again_is_marked() {
        let groups = ["a", "b", "a", "a", "c"].map(|key| group(Op::Check, key, 1, 9));
        assert_eq!(runs(&groups, false), [(0, 2, 9), (8, 2, 9), (0, 1, 9)]);
    }
}
