//! The script's reply as bytes; `scripts/call.lua` describes the layout.
//!
//! The functions that read a reply also skip it: a batch is first cut into the replies to its groups, and each caller then
//! reads its own. [`Reader::key_reply`] only finds where the numbers of a reply are, so skipping a decision allocates
//! nothing.

use std::{ops::Range, time::Duration};

use tidegate::{
    Algorithm, AtEnd, Buckets, Burst, Entry, Limit, OpenReservation, Policy, Timestamp,
    external_store::{LimitInspection, LimitStatus},
};

use crate::{
    error::Error,
    wire::{Action, Group, HAS_IN_FLIGHT, ReservationStep},
};

/// The status of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    /// The group was executed; the range of its reply. With `no_room`, nothing was done, because no new keys may be
    /// created: the range has one byte for each key, which is 0 if the key does not exist.
    Answered {
        range: Range<usize>,
        no_room: bool,
    },
    /// The group arrived after its deadline, and nothing was done.
    Late,
    Failed(Error),
}

/// The reply to a call.
#[derive(Debug)]
pub(crate) struct CallReply {
    /// The server's time.
    pub(crate) now: u64,
    /// The status of each group.
    pub(crate) statuses: Vec<Status>,
    /// The number of reservations that ended by themselves.
    pub(crate) ended: u64,
}

/// Reads the reply to a call for these groups.
pub(crate) fn read_reply<'a>(reply: &[u8], groups: impl IntoIterator<Item = &'a Group>) -> Result<CallReply, Error> {
    let mut reader = Reader::new(reply);
    let now = reader.number(7)?;
    let status = |group: &Group| {
        let status = reader.number(1)?;
        let start = reader.at;
        Ok(match status {
            0 => {
                reader.skip(group)?;
                Status::Answered { range: start..reader.at, no_room: false }
            }
            1 => Status::Late,
            3 => {
                reader.take(group.parts.len())?;
                Status::Answered { range: start..reader.at, no_room: true }
            }
            _ => Status::Failed(Error::from_message(&String::from_utf8_lossy(reader.bytes(2)?))),
        })
    };
    let statuses = groups.into_iter().map(status).collect::<Result<_, Error>>()?;
    let ended = if reader.is_at_end() { 0 } else { reader.number(4)? };
    Ok(CallReply { now, statuses, ended })
}

// The widths in bytes of the numbers of each record. Numbers are unsigned and big-endian.

/// A limit after a decision or a refund: units in use, wait until the cost fits, wait until nothing is in use. A wait of 0
/// means none.
const LIMIT: [usize; 3] = [7, 7, 7];
/// A limit in an inspection: units in use, wait until nothing is in use, wait until fewer are, number of entries that are
/// not listed, number of listed entries. These follow.
const INSPECTED_LIMIT: [usize; 5] = [7, 7, 7, 4, 2];
/// An entry of an inspected limit: first time and last time, both signed, and units.
const INSPECTED_ENTRY: [usize; 3] = [8, 8, 7];
/// An open reservation: units, time of the grant, which is signed, end, kind.
const OPEN_RESERVATION: [usize; 4] = [7, 8, 7, 1];
/// The place of a limit on open holds among the limits of its policy, and its capacity.
const IN_FLIGHT: [usize; 2] = [1, 7];
/// How a limit of a policy divides time: window, buckets, drain in a window.
const GRID: [usize; 3] = [6, 2, 6];
/// The capacity of a limit of a policy.
const CAPACITY: [usize; 1] = [7];

/// Reads the numbers of a record from the beginning of `bytes`, which are long enough.
#[inline]
fn numbers<const N: usize>(mut bytes: &[u8], widths: [usize; N]) -> [u64; N] {
    widths.map(|width| {
        let (number, rest) = bytes.split_at(width);
        bytes = rest;
        number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    })
}

/// Reads consecutive records.
fn records<const N: usize>(bytes: &[u8], widths: [usize; N]) -> impl Iterator<Item = [u64; N]> {
    bytes.chunks_exact(widths.iter().sum()).map(move |record| numbers(record, widths))
}

/// The error of a reply that contains an invalid value.
pub(crate) fn garbled<E>(_: E) -> Error {
    Error::Garbled
}

// Flags of a reply for one key.
const CHARGED: u64 = 1;
const IN_RESERVED_FORM: u8 = 2;
const RETURNED: u64 = 4;
const JOINED: u64 = 8;
const OTHER_LIMITS: u64 = 16;
const BAN: u64 = 32;
const EXEMPT: u64 = 64;

/// Whether a key has the form of keys with reservations, by the reply to a decision or a reserve.
pub(crate) fn is_in_reserved_form(reply: &[u8]) -> bool {
    reply.first().is_some_and(|flags| flags & IN_RESERVED_FORM != 0)
}

/// The override that decided.
pub(crate) enum AppliedOverride<'a> {
    Limits(RawPolicy<'a>),
    /// The wait of each limit is the time until the ban ends.
    Ban,
    Exempt,
}

/// The reply to a decision or a refund of one key.
pub(crate) struct KeyReply<'a> {
    pub(crate) charged: bool,
    pub(crate) returned: bool,
    /// Whether the charge was added to the newest entry, because the log can't grow now.
    pub(crate) joined: bool,
    pub(crate) at: Timestamp,
    pub(crate) applied: Option<AppliedOverride<'a>>,
    /// The whole wait of a request that other limits deny.
    pub(crate) whole_wait_us: Option<u64>,
    /// Consecutive records of the form [`LIMIT`].
    limits: &'a [u8],
}

impl KeyReply<'_> {
    /// Returns the status of each limit in force.
    pub(crate) fn limits(&self) -> Vec<LimitStatus> {
        let status = |[used, retry, reset]: [u64; 3]| LimitStatus {
            used,
            retry_after_us: positive(retry),
            reset_after_us: reset,
        };
        records(self.limits, LIMIT).map(status).collect()
    }
}

/// The reply to a reserve of one key.
pub(crate) struct GrantReply<'a> {
    pub(crate) key: KeyReply<'a>,
    /// The time until another reservation may be open, if the key has too many.
    pub(crate) full_for_us: Option<u64>,
}

/// The reply to a lease.
pub(crate) enum LeaseReply<'a> {
    Decided {
        /// Whether the earlier lease was open, if there was one to settle.
        settled: Option<bool>,
        granted: u64,
        grant: GrantReply<'a>,
    },
    /// More was spent of the earlier lease than its units. Nothing was done.
    SpentTooMuch { units: u64 },
}

/// The reply to a commit, a renew or a settle.
pub(crate) enum ChangeReply<'a> {
    Done {
        known: bool,
        key: KeyReply<'a>,
    },
    /// More was spent of the lease than its units. Nothing was done.
    SpentTooMuch {
        units: u64,
    },
    /// The reservation has several requests, whose ids these are. Nothing was done.
    Parts(&'a [u8]),
}

const SPENT_TOO_MUCH: u64 = 3;
const IS_PART: u64 = 4;
/// The number of bytes of the secret that seals the places of reservations.
pub(crate) const SECRET_SIZE: usize = 32;

fn positive(wait: u64) -> Option<u64> {
    Some(wait).filter(|wait| *wait > 0)
}

/// The state of an inspected key.
pub(crate) struct InspectionReply<'a> {
    pub(crate) newest: Timestamp,
    pub(crate) limits: Vec<LimitInspection>,
    pub(crate) applied: Option<AppliedOverride<'a>>,
    pub(crate) reservations: Vec<OpenReservation>,
}

/// Reads a reply from its beginning to its end; a truncated reply is [`Error::Garbled`].
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let end = self.at.checked_add(length).ok_or(Error::Garbled)?;
        let taken = self.bytes.get(self.at..end).ok_or(Error::Garbled)?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn numbers<const N: usize>(&mut self, widths: [usize; N]) -> Result<[u64; N], Error> {
        Ok(numbers(self.take(widths.iter().sum())?, widths))
    }

    pub(crate) fn number(&mut self, width: usize) -> Result<u64, Error> {
        let [number] = self.numbers([width])?;
        Ok(number)
    }

    /// Returns the bytes of consecutive records.
    fn take_records<const N: usize>(&mut self, count: usize, widths: [usize; N]) -> Result<&'a [u8], Error> {
        self.take(count * widths.iter().sum::<usize>())
    }

    /// Returns bytes whose number is stored before them, in `width` bytes.
    pub(crate) fn bytes(&mut self, width: usize) -> Result<&'a [u8], Error> {
        let length = self.number(width)?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Returns the bytes that have not been read yet.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    fn skip(&mut self, group: &Group) -> Result<(), Error> {
        for part in &group.parts {
            match group.action {
                Action::Reservation(step) => {
                    // Such a reply is the only one of the group.
                    if self.skip_reservation(step, part.limits())? {
                        break;
                    }
                    Ok(())
                }
                Action::Decide(_) | Action::Refund => self.key_reply(part.limits()).map(drop),
                Action::Reset => self.number(1).map(drop),
                Action::Inspect => self.inspection(part.limits()).map(drop),
                Action::Override(_) | Action::OverrideList(_) => self.bytes(4).map(drop),
            }?;
        }
        Ok(())
    }

    /// Skips the reply to an operation on reservations. Returns whether it answers the whole group.
    fn skip_reservation(&mut self, step: ReservationStep, limits: usize) -> Result<bool, Error> {
        Ok(match step {
            ReservationStep::Reserve => self.grant(limits).map(|_| false)?,
            ReservationStep::Lease => self.lease(limits).map(|_| false)?,
            ReservationStep::Secret => self.take(SECRET_SIZE).map(|_| false)?,
            ReservationStep::Commit | ReservationStep::Renew | ReservationStep::Settle => {
                !matches!(self.change(limits)?, ChangeReply::Done { .. })
            }
        })
    }

    /// Reads the reply to a reserve of one key.
    pub(crate) fn grant(&mut self, limits: usize) -> Result<GrantReply<'a>, Error> {
        Ok(GrantReply { key: self.key_reply(limits)?, full_for_us: positive(self.number(7)?) })
    }

    /// Reads the reply to a lease.
    pub(crate) fn lease(&mut self, limits: usize) -> Result<LeaseReply<'a>, Error> {
        let [settled, number] = self.numbers([1, 7])?;
        let settled = match settled {
            0 => None,
            SPENT_TOO_MUCH => return Ok(LeaseReply::SpentTooMuch { units: number }),
            settled => Some(settled == 2),
        };
        Ok(LeaseReply::Decided { settled, granted: number, grant: self.grant(limits)? })
    }

    /// Reads the reply to a commit, a renew or a settle of one key.
    pub(crate) fn change(&mut self, limits: usize) -> Result<ChangeReply<'a>, Error> {
        Ok(match self.number(1)? {
            SPENT_TOO_MUCH => ChangeReply::SpentTooMuch { units: self.number(7)? },
            IS_PART => ChangeReply::Parts(self.bytes(2)?),
            known => ChangeReply::Done { known: known == 1, key: self.key_reply(limits)? },
        })
    }

    /// Reads the secret that seals the places of reservations.
    pub(crate) fn secret(&mut self) -> Result<[u8; SECRET_SIZE], Error> {
        self.take(SECRET_SIZE)?.try_into().map_err(garbled)
    }

    /// Reads the reply to a decision or a refund of one key, whose policy has this many limits.
    pub(crate) fn key_reply(&mut self, limits: usize) -> Result<KeyReply<'a>, Error> {
        let [flags, at] = self.numbers([1, 7])?;
        let applied = self.applied_override(flags)?;
        let (limits, whole_wait) = match &applied {
            Some(AppliedOverride::Limits(policy)) => (policy.limits, self.number(7)?),
            Some(AppliedOverride::Exempt) => (0, 0),
            _ => (limits, 0),
        };
        Ok(KeyReply {
            charged: flags & CHARGED != 0,
            returned: flags & RETURNED != 0,
            joined: flags & JOINED != 0,
            at: Timestamp::from_micros(at),
            applied,
            whole_wait_us: positive(whole_wait),
            limits: self.take_records(limits, LIMIT)?,
        })
    }

    fn applied_override(&mut self, flags: u64) -> Result<Option<AppliedOverride<'a>>, Error> {
        Ok(if flags & OTHER_LIMITS != 0 {
            Some(AppliedOverride::Limits(RawPolicy::read(self)?))
        } else if flags & BAN != 0 {
            Some(AppliedOverride::Ban)
        } else if flags & EXEMPT != 0 {
            Some(AppliedOverride::Exempt)
        } else {
            None
        })
    }

    /// Reads the reply to an inspection of one key, whose policy has this many limits; `None` if the key has no state.
    pub(crate) fn inspection(&mut self, limits: usize) -> Result<Option<InspectionReply<'a>>, Error> {
        let flags = self.number(1)?;
        if flags == 0 {
            return Ok(None);
        }
        let newest = Timestamp::from_micros(self.number(7)?);
        let applied = self.applied_override(flags)?;
        let limits = match &applied {
            Some(AppliedOverride::Limits(policy)) => policy.limits,
            _ => limits,
        };
        let limits = (0..limits).map(|_| self.limit_inspection()).collect::<Result<_, _>>()?;
        let open = usize::try_from(self.number(2)?).map_err(garbled)?;
        let reservations = records(self.take_records(open, OPEN_RESERVATION)?, OPEN_RESERVATION).map(open_reservation);
        Ok(Some(InspectionReply { newest, limits, applied, reservations: reservations.collect() }))
    }

    fn limit_inspection(&mut self) -> Result<LimitInspection, Error> {
        let [used, reset_after_us, next_free_after_us, unlisted, listed] = self.numbers(INSPECTED_LIMIT)?;
        let entry = |[first, last, units]: [u64; 3]| Entry::new(signed_time(first), signed_time(last), units);
        let listed = self.take_records(usize::try_from(listed).map_err(garbled)?, INSPECTED_ENTRY)?;
        let entries = records(listed, INSPECTED_ENTRY).map(entry).collect();
        let unlisted = usize::try_from(unlisted).unwrap_or(usize::MAX);
        Ok(LimitInspection { used, reset_after_us, next_free_after_us, entries, unlisted })
    }
}

fn signed_time(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros.cast_signed().max(0).cast_unsigned())
}

fn open_reservation([units, granted_at, until, kind]: [u64; 4]) -> OpenReservation {
    let (granted_at, until) = (signed_time(granted_at), Timestamp::from_micros(until));
    match kind {
        0 => OpenReservation::hold(units, granted_at, until, AtEnd::Released),
        1 => OpenReservation::hold(units, granted_at, until, AtEnd::Spent),
        _ => OpenReservation::lease(units, granted_at, until),
    }
}

/// A policy in the form of [`encode_policy`](crate::wire::encode_policy), not decoded yet.
pub(crate) struct RawPolicy<'a> {
    algorithm: u8,
    /// The number of all limits.
    limits: usize,
    grids: &'a [u8],
    capacities: &'a [u8],
    /// The limits on open holds.
    in_flight: &'a [u8],
}

impl<'a> RawPolicy<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let (algorithm, limits) = (reader.take(1)?[0], usize::from(reader.take(1)?[0]));
        let grids = reader.take_records(limits, GRID)?;
        // Whether an override is in shadow mode depends on its policy.
        let has_in_flight = reader.number(1)? >= HAS_IN_FLIGHT.into();
        let capacities = reader.take_records(limits, CAPACITY)?;
        let others = if has_in_flight { reader.number(1)? } else { 0 };
        let others = usize::try_from(others).map_err(garbled)?;
        let in_flight = reader.take_records(others, IN_FLIGHT)?;
        Ok(Self { algorithm, limits: limits + others, grids, capacities, in_flight })
    }

    pub(crate) fn decode(&self) -> Result<Policy, Error> {
        let grids = || records(self.grids, GRID);
        let capacities = || records(self.capacities, CAPACITY).map(|[units]| units);
        let limits = grids().zip(capacities()).map(|([window, _, drain], capacity)| {
            Limit::new(if self.algorithm == 5 { drain } else { capacity }, Duration::from_micros(window))
        });
        let mut limits = limits.collect::<Result<Vec<_>, _>>().map_err(garbled)?;
        for [place, max] in records(self.in_flight, IN_FLIGHT) {
            let place = usize::try_from(place).map_err(garbled)?.saturating_sub(1).min(limits.len());
            limits.insert(place, Limit::in_flight(max).map_err(garbled)?);
        }
        let policy = Policy::unnamed(limits).map_err(garbled)?;
        Ok(match self.algorithm {
            1 => policy,
            2 => policy.with_algorithm(Algorithm::SlidingCounter),
            3 => {
                // Without a window, the number of buckets has no effect.
                let buckets = grids().next().map_or(1, |[_, buckets, _]| buckets);
                policy.with_algorithm(Algorithm::SlidingBuckets(Buckets::new(buckets).map_err(garbled)?))
            }
            4 => policy.with_algorithm(Algorithm::FixedWindow),
            _ if grids().map(|[.., drain]| drain).eq(capacities()) => policy.with_algorithm(Algorithm::Gcra(None)),
            _ => {
                let bursts = capacities().map(Burst::new).collect::<Result<Vec<_>, _>>().map_err(garbled)?;
                policy.with_bursts(bursts).map_err(garbled)?
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tidegate::{Op, Policy};

    use super::{AppliedOverride, CallReply, Reader, Status, read_reply};
    use crate::wire::{
        Action, Group,
        ReservationStep::{Commit, Lease, Reserve, Settle},
        encode_policy, put,
    };

    fn policy(limits: &[&str]) -> Policy {
        Policy::unnamed(limits.iter().map(|limit| limit.parse().expect("a limit"))).expect("a policy")
    }

    fn numbers(fields: &[(u64, usize)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, width) in fields {
            put(&mut bytes, *number, *width);
        }
        bytes
    }

    /// A reply of each form, with the action that it answers.
    fn replies() -> Vec<(Action, Vec<u8>)> {
        let (check, inspect) = (Action::Decide(Op::Check), Action::Inspect);
        let other = encode_policy(&policy(&["7/1s", "9/1m"]));
        let limit = |used| numbers(&[(used, 7), (0, 7), (60, 7)]);
        let inspected = numbers(&[(3, 7), (60, 7), (50, 7), (2, 4), (1, 2), (10, 8), (20, 8), (3, 7)]);
        let open = numbers(&[(1, 2), (5, 7), (10, 8), (90, 7), (0, 1)]);
        let head = |flags| numbers(&[(flags, 1), (17, 7)]);
        vec![
            (check, [head(1), limit(3)].concat()),
            (check, [head(16), other.clone(), numbers(&[(40, 7)]), limit(3), limit(4)].concat()),
            (check, [head(32), limit(3)].concat()),
            (check, head(64)),
            (Action::Refund, [head(4), limit(3)].concat()),
            (Action::Reset, vec![2]),
            (inspect, vec![0]),
            (inspect, [head(2), inspected.clone(), open.clone()].concat()),
            (inspect, [head(2 + 16), other, inspected.clone(), inspected, numbers(&[(0, 2)])].concat()),
            (Action::Reservation(Reserve), [head(1), limit(3), numbers(&[(0, 7)])].concat()),
            (Action::Reservation(Commit), [vec![1], head(0), limit(3)].concat()),
            (Action::Reservation(Commit), numbers(&[(4, 1), (2, 2), (7, 2)])),
            (Action::Reservation(Settle), numbers(&[(3, 1), (9, 7)])),
            (Action::Reservation(Lease), [numbers(&[(2, 1), (4, 7)]), head(0), limit(3), numbers(&[(0, 7)])].concat()),
        ]
    }

    #[test]
    fn each_group_of_a_batch_gets_the_bytes_of_its_own_reply() {
        let (groups, mut reply) = (replies(), numbers(&[(99, 7)]));
        for (_, bytes) in &groups {
            reply.push(0);
            reply.extend_from_slice(bytes);
        }
        reply.extend_from_slice(b"\x01\x03\x00\x02\x00\x0fREADONLY a text");
        let actions = groups.iter().map(|(action, _)| *action).chain([Action::Refund, Action::Reset, Action::Inspect]);
        let requested: Vec<Group> = actions.map(|action| Group::with_one_key(action, "key", 1)).collect();
        let CallReply { now, statuses, ended } = read_reply(&reply, &requested).expect("a reply");
        assert_eq!((now, statuses.len(), ended), (99, requested.len(), 0));
        for ((_, bytes), status) in groups.iter().zip(&statuses) {
            let Status::Answered { range, no_room: false } = status else { panic!("{status:?}") };
            assert_eq!(reply[range.clone()], bytes[..]);
        }
        // The byte of the missing key comes before the 18 bytes of the error.
        let last = [
            Status::Late,
            Status::Answered { range: reply.len() - 19..reply.len() - 18, no_room: true },
            Status::Failed(crate::Error::ReadOnly),
        ];
        assert_eq!(statuses[groups.len()..], last);
        for length in 0..reply.len() {
            assert!(read_reply(&reply[..length], &requested).is_err(), "{length} bytes");
        }
        reply.extend_from_slice(&numbers(&[(7, 4)]));
        assert_eq!(read_reply(&reply, &requested).expect("a reply").ended, 7);
    }

    #[test]
    fn a_reply_under_other_limits_describes_those_limits() {
        let replies = replies();
        let reply = Reader::new(&replies[1].1).key_reply(1).expect("a reply");
        assert_eq!((reply.limits().len(), reply.limits()[1].used, reply.whole_wait_us), (2, 4, Some(40)));
        let Some(AppliedOverride::Limits(limits)) = reply.applied else { panic!("an override decided") };
        assert_eq!(limits.decode().expect("a policy").limits(), policy(&["7/1s", "9/1m"]).limits());
        let inspection = Reader::new(&replies[8].1).inspection(1).expect("a reply").expect("a state");
        assert_eq!((inspection.limits.len(), inspection.limits[1].entries[0].units), (2, 3));
    }
}
