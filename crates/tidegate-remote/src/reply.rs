//! [`Fields`]: reads the replies of the root with FULL: names and values in turn.

use std::time::Duration;

use redis::Value;
use tidegate::{
    AtEnd, Decision, Entry, InUse, Inspection, Lease, Leased, Limit, Mode, OpenReservation, Policy, Reason, Refund,
    ReservationId, Timestamp,
    external_store::{self, DecidedBy, DecisionFields, LimitInspection},
};

use crate::error::Error;

/// Names and values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(&'a [Value]);

impl<'a> Fields<'a> {
    pub(crate) fn of(reply: &'a Value) -> Result<Self, Error> {
        match reply {
            Value::Array(values) if values.len() % 2 == 0 => Ok(Self(values)),
            _ => Err(Error::Garbled("list of fields")),
        }
    }

    fn get(self, name: &'static str) -> Result<&'a Value, Error> {
        let is_named = |pair: &&[Value]| matches!(&pair[0], Value::BulkString(found) if found == name.as_bytes());
        let found = self.0.chunks_exact(2).find(is_named);
        found.map(|pair| &pair[1]).ok_or(Error::Garbled(name))
    }

    fn number(self, name: &'static str) -> Result<u64, Error> {
        self.optional_number(name)?.ok_or(Error::Garbled(name))
    }

    fn optional_number(self, name: &'static str) -> Result<Option<u64>, Error> {
        match self.get(name)? {
            Value::Nil => Ok(None),
            Value::Int(number) => u64::try_from(*number).map(Some).map_err(|_| Error::Garbled(name)),
            _ => Err(Error::Garbled(name)),
        }
    }

    pub(crate) fn flag(self, name: &'static str) -> Result<bool, Error> {
        self.optional_number(name)?.map(|number| number == 1).ok_or(Error::Garbled(name))
    }

    fn text(self, name: &'static str) -> Result<&'a str, Error> {
        match self.get(name)? {
            Value::BulkString(bytes) => std::str::from_utf8(bytes).map_err(|_| Error::Garbled(name)),
            _ => Err(Error::Garbled(name)),
        }
    }

    fn list(self, name: &'static str) -> Result<&'a [Value], Error> {
        match self.get(name)? {
            Value::Array(values) => Ok(values),
            _ => Err(Error::Garbled(name)),
        }
    }

    fn time(self, name: &'static str) -> Result<Timestamp, Error> {
        self.number(name).map(Timestamp::from_micros)
    }

    /// The decision, and whether the root decided by a limit that `policy` does not have. A denial of the root is a shadow
    /// denial if `policy` is in shadow mode.
    pub(crate) fn decision(self, policy: &Policy) -> Result<(Decision, bool), Error> {
        let (text, capacity) = (self.text("limit")?, self.number("capacity")?);
        let degraded = self.flag("degraded")?;
        let is_limit = |limit: &&Limit| limit.to_string() == text && policy.capacity(**limit) == capacity;
        let known = policy.limits().iter().find(is_limit);
        let limit = known.copied().map_or_else(|| text.parse().map_err(|_| Error::Garbled("limit")), Ok)?;
        let mut decided_by = decided_by(self.text("decided_by")?)?;
        let is_different = known.is_none() && decided_by == DecidedBy::Policy && !degraded;
        if is_different {
            decided_by = DecidedBy::Limits;
        }
        let fields = DecisionFields {
            reason: in_mode(policy.mode(), reason(self.text("reason")?)?),
            degraded,
            leased: self.flag("leased")?,
            part: 0,
            decided_by,
            limit,
            capacity,
            used: self.number("used")?,
            remaining: self.number("remaining")?,
            retry_after_us: self.optional_number("retry_after_us")?,
            reset_after_us: self.number("reset_after_us")?,
            limit_reset_after_us: self.number("limit_reset_after_us")?,
            charged_at: self.optional_number("charged_at_us")?.map(Timestamp::from_micros),
        };
        Ok((fields.into(), is_different))
    }

    /// The decisions on several requests.
    pub(crate) fn parts(self) -> Result<Vec<Self>, Error> {
        self.list("checks")?.iter().map(Self::of).collect()
    }

    pub(crate) fn reservation(self) -> Result<Option<ReservationId>, Error> {
        match self.get("reservation")? {
            Value::Nil => Ok(None),
            _ => self.text("reservation")?.parse().map(Some).map_err(|_| Error::Garbled("reservation")),
        }
    }

    pub(crate) fn leased(self, decision: Decision, lease: &Lease) -> Result<Leased, Error> {
        let settled = match self.get("settled")? {
            Value::Nil => None,
            _ => Some(self.flag("settled")?),
        };
        let leased = Leased::new(decision, self.reservation()?, self.number("granted")?, settled);
        let ttl = self.optional_number("ttl_ms")?.map(Duration::from_millis);
        Ok(match ttl.filter(|ttl| *ttl < lease.ttl) {
            Some(ttl) => leased.with_ttl(ttl),
            None => leased,
        })
    }

    pub(crate) fn refund(self) -> Result<Refund, Error> {
        let (remaining, reset_after) = (self.number("remaining")?, self.number("reset_after_us")?);
        Ok(external_store::refund_of(self.flag("returned")?, remaining, reset_after))
    }

    pub(crate) fn inspection(self, policy: &Policy) -> Result<Inspection, Error> {
        let limits: Vec<Self> = self.list("limits")?.iter().map(Self::of).collect::<Result<_, _>>()?;
        if limits.len() != policy.limits().len() {
            return Err(Error::Refused("the policy has another number of limits at the root".to_owned()));
        }
        let numbers = limits.iter().map(|fields| fields.limit()).collect::<Result<_, _>>()?;
        let mut inspection = external_store::inspection(policy, self.time("newest_charge_us")?, numbers);
        for (in_use, fields) in inspection.limits.iter_mut().zip(limits) {
            let InUse { limit, remaining, .. } = in_use;
            let text = fields.text("limit")?;
            if limit.to_string() != text {
                *limit = text.parse().map_err(|_| Error::Garbled("limit"))?;
            }
            *remaining = fields.number("remaining")?;
        }
        let reservation = |value: &'a Value| Self::of(value)?.open_reservation();
        inspection.reservations = self.list("reservations")?.iter().map(reservation).collect::<Result<_, _>>()?;
        Ok(inspection)
    }

    fn limit(self) -> Result<LimitInspection, Error> {
        let entry = |value: &'a Value| {
            let fields = Self::of(value)?;
            Ok(Entry::new(fields.time("first_us")?, fields.time("last_us")?, fields.number("units")?))
        };
        Ok(LimitInspection {
            used: self.number("used")?,
            reset_after_us: self.number("reset_after_us")?,
            next_free_after_us: self.number("next_free_after_us")?,
            entries: self.list("entries")?.iter().map(entry).collect::<Result<_, Error>>()?,
            unlisted: usize::try_from(self.number("unlisted")?).unwrap_or(usize::MAX),
        })
    }

    fn open_reservation(self) -> Result<OpenReservation, Error> {
        let (units, granted_at, until) = (self.number("units")?, self.time("granted_at_us")?, self.time("until_us")?);
        if self.text("kind")? == "lease" {
            return Ok(OpenReservation::lease(units, granted_at, until));
        }
        let at_end: AtEnd = self.text("expires")?.parse().map_err(|_| Error::Garbled("expires"))?;
        Ok(OpenReservation::hold(units, granted_at, until, at_end))
    }
}

/// The reason under a policy in this mode: a shadow policy never denies.
fn in_mode(mode: Mode, reason: Reason) -> Reason {
    match mode {
        Mode::Shadow if reason != Reason::Allowed => Reason::Shadow,
        _ => reason,
    }
}

fn reason(name: &str) -> Result<Reason, Error> {
    use Reason::{Allowed, Banned, Impossible, Limited, Shadow, StoreUnavailable};
    let all = [Allowed, Limited, Impossible, StoreUnavailable, Shadow, Banned];
    all.into_iter().find(|reason| reason.as_str() == name).ok_or(Error::Garbled("reason"))
}

fn decided_by(name: &str) -> Result<DecidedBy, Error> {
    let all = [DecidedBy::Policy, DecidedBy::Limits, DecidedBy::Ban, DecidedBy::Exempt];
    all.into_iter().find(|decided_by| decided_by.as_str() == name).ok_or(Error::Garbled("decided_by"))
}
