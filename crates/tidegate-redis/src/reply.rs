//! What the script answers, as bytes; `scripts/request.lua` tells the layout.

use std::{ops::Range, time::Duration};

use tidegate::{
    Algorithm, Buckets, Burst, Entry, Limit, Policy, Timestamp,
    external_store::{LimitInspection, LimitStatus},
};

use crate::{
    error::Error,
    wire::{Action, Group},
};

/// What became of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Status {
    /// It was done; the bytes of its reply.
    Done(Range<usize>),
    /// It came after its deadline, and nothing was done.
    Late,
    /// No new keys may be created, and nothing was done. There is one byte for each part, which is 0 if the part has no
    /// key.
    NoRoom(Range<usize>),
    Failed(Error),
}

/// The server's time of a reply, and what became of each group.
pub(crate) fn read_reply<'a>(
    reply: &[u8],
    groups: impl IntoIterator<Item = &'a Group>,
) -> Result<(u64, Vec<Status>), Error> {
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
            3 => {
                let start = reader.at;
                reader.take(group.parts.len())?;
                Status::NoRoom(start..reader.at)
            }
            _ => {
                let length = reader.number(2)?;
                let text = String::from_utf8_lossy(reader.take(usize::try_from(length).unwrap_or(usize::MAX))?);
                Status::Failed(Error::from_message(&text))
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
    pub(crate) told: Vec<LimitStatus>,
    pub(crate) by: Option<By>,
}

/// The override that decided.
#[derive(Debug)]
pub(crate) enum By {
    /// Other limits, and the whole wait of a denial.
    Limits(Box<Policy>, Option<u64>),
    /// The wait of each limit is the time until the ban ends.
    Ban,
    Exempt,
}

/// What was found of a state.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) newest: Timestamp,
    pub(crate) shown: Vec<LimitInspection>,
    pub(crate) by: Option<By>,
}

/// Reads a reply bit by bit; one that is cut off is [`Error::Garbled`].
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

const BY_LIMITS: u64 = 16;
const BAN: u64 = 32;
const EXEMPT: u64 = 64;
const PER_LIMIT: usize = 21;
const PER_ENTRY: usize = 23;

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

    pub(crate) fn number(&mut self, width: usize) -> Result<u64, Error> {
        Ok(self.take(width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn signed(&mut self) -> Result<i64, Error> {
        Ok(self.number(8)?.cast_signed())
    }

    fn skip_group(&mut self, group: &Group) -> Result<(), Error> {
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

    fn skip_part(&mut self, limits: usize) -> Result<(), Error> {
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

    fn skip_found(&mut self, limits: usize) -> Result<(), Error> {
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
    fn skip_policy(&mut self) -> Result<usize, Error> {
        self.take(1)?;
        let limits = usize::try_from(self.number(1)?).unwrap_or(0);
        self.take(1 + 21 * limits)?;
        Ok(limits)
    }

    pub(crate) fn part(&mut self, limits: usize) -> Result<PartReply, Error> {
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

    fn by(&mut self, flags: u64) -> Result<Option<By>, Error> {
        if flags < BY_LIMITS {
            return Ok(None);
        }
        Ok(Some(if flags & BY_LIMITS != 0 {
            By::Limits(Box::new(decode_policy(self)?), None)
        } else if flags & BAN != 0 {
            By::Ban
        } else {
            By::Exempt
        }))
    }

    fn told(&mut self) -> Result<LimitStatus, Error> {
        let (used, retry, reset) = (self.number(7)?, self.number(7)?, self.number(7)?);
        Ok(LimitStatus { used, retry_after_us: (retry > 0).then_some(retry), reset_after_us: reset })
    }

    /// Whether there was a state to forget.
    pub(crate) fn found(&mut self) -> Result<bool, Error> {
        Ok(self.number(1)? != 0)
    }

    /// What there is to show, if there is a state.
    pub(crate) fn state(&mut self, limits: usize) -> Result<Option<Found>, Error> {
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
    pub(crate) fn bytes(&mut self, width: usize) -> Result<&'a [u8], Error> {
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
    fn shown(&mut self) -> Result<LimitInspection, Error> {
        let (used, reset_after_us, next_free_after_us) = (self.number(7)?, self.number(7)?, self.number(7)?);
        let unlisted = usize::try_from(self.number(4)?).unwrap_or(usize::MAX);
        let time = |micros: i64| Timestamp::from_micros(micros.max(0).cast_unsigned());
        let entries = (0..self.number(2)?)
            .map(|_| Ok(Entry::new(time(self.signed()?), time(self.signed()?), self.number(7)?)))
            .collect::<Result<_, Error>>()?;
        Ok(LimitInspection { used, reset_after_us, next_free_after_us, entries, unlisted })
    }
}

/// The limits and the algorithm that [`encode_policy`](crate::wire::encode_policy) has told.
pub(crate) fn decode_policy(reader: &mut Reader<'_>) -> Result<Policy, Error> {
    let (kind, limits) = (reader.number(1)?, reader.number(1)?);
    let grids: Vec<_> =
        (0..limits).map(|_| Ok((reader.number(6)?, reader.number(2)?, reader.number(6)?))).collect::<Result<_, _>>()?;
    reader.number(1)?;
    let capacities: Vec<_> = (0..limits).map(|_| reader.number(7)).collect::<Result<_, _>>()?;
    let limits = grids.iter().zip(&capacities).map(|((window, _, drain), capacity)| {
        let max = if kind == 5 { *drain } else { *capacity };
        Limit::new(max, Duration::from_micros(*window)).map_err(|_| Error::Garbled)
    });
    let policy = Policy::unnamed(limits.collect::<Result<Vec<_>, _>>()?).map_err(|_| Error::Garbled)?;
    let bursts = || capacities.iter().map(|capacity| Burst::new(*capacity)).collect::<Result<Vec<_>, _>>();
    Ok(match kind {
        1 => policy,
        2 => policy.with_algorithm(Algorithm::SlidingCounter),
        3 => {
            let buckets = Buckets::new(grids[0].1).map_err(|_| Error::Garbled)?;
            policy.with_algorithm(Algorithm::SlidingBuckets(buckets))
        }
        4 => policy.with_algorithm(Algorithm::FixedWindow),
        _ if grids.iter().zip(&capacities).all(|(grid, capacity)| grid.2 == *capacity) => {
            policy.with_algorithm(Algorithm::Gcra(None))
        }
        _ => policy.with_bursts(bursts().map_err(|_| Error::Garbled)?).map_err(|_| Error::Garbled)?,
    })
}
