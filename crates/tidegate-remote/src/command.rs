//! The commands of RESP that the store sends.

use std::time::Duration;

use redis::Cmd;
use tidegate::{AtEnd, Cost, Hold, Key, Lease, Op, Policy, ReservationId, Spend, StoreError, Timestamp};

/// A decision on one request.
pub(crate) fn decide(op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Cmd {
    let Some(name) = policy.name() else { return by_limits(op, policy, key, cost) };
    let mut command = match op {
        Op::Check => of_key("TG.CHECK", name, key),
        Op::Peek => of_key("TG.PEEK", name, key),
        Op::Charge => of_key("TG.CHARGE", name, key),
    };
    match op {
        Op::Charge => command.arg(cost.get()),
        Op::Check | Op::Peek if cost == Cost::ONE => &mut command,
        Op::Check | Op::Peek => command.arg("COST").arg(cost.get()),
    };
    full(command, key)
}

/// A decision by limits without a name.
fn by_limits(op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Cmd {
    let mut command = redis::cmd("TG.LIMIT");
    command.arg(key.as_bytes());
    for limit in policy.limits() {
        command.arg(limit.to_string());
    }
    command.arg("ALGORITHM").arg(policy.algorithm().to_string()).arg("COST").arg(cost.get());
    command.arg("OP").arg(name_of(op));
    full(command, key)
}

/// One decision on several requests under policies with a name.
pub(crate) fn decide_all(op: Op, spends: &[Spend<'_>]) -> Result<Cmd, StoreError> {
    let mut command = redis::cmd("TG.CHECKALL");
    let mut joined = String::new();
    for spend in spends {
        let operation = "one decision over several keys with limits that the caller supplies";
        let name = spend.policy.name().ok_or(StoreError::Unsupported { operation })?;
        command.arg(name).arg(spend.key.as_bytes()).arg(spend.cost.get());
        joined.push(if spend.key.is_joined() { '1' } else { '0' });
    }
    command.arg("OP").arg(name_of(op)).arg("JOINED").arg(joined).arg("FULL");
    Ok(command)
}

fn name_of(op: Op) -> &'static str {
    match op {
        Op::Check => "check",
        Op::Peek => "peek",
        Op::Charge => "charge",
    }
}

pub(crate) fn refund(name: &str, key: &Key<'_>, cost: Cost, charged_at: Timestamp) -> Cmd {
    let mut command = of_key("TG.REFUND", name, key);
    command.arg(cost.get()).arg(charged_at.as_micros());
    full(command, key)
}

pub(crate) fn reset(name: &str, key: &Key<'_>) -> Cmd {
    joined(of_key("TG.RESET", name, key), key)
}

pub(crate) fn inspect(name: &str, key: &Key<'_>) -> Cmd {
    joined(of_key("TG.INSPECT", name, key), key)
}

pub(crate) fn reserve(name: &str, key: &Key<'_>, cost: Cost, hold: Hold) -> Cmd {
    let mut command = of_key("TG.RESERVE", name, key);
    command.arg(cost.get()).arg(millis_up(hold.ttl()));
    if hold.at_end() == AtEnd::Spent {
        command.arg("SPENT");
    }
    full(command, key)
}

pub(crate) fn lease(name: &str, key: &Key<'_>, lease: &Lease) -> Cmd {
    let mut command = of_key("TG.LEASE", name, key);
    command.arg(lease.asked.get()).arg(millis_up(lease.ttl)).arg("LEAST").arg(lease.least.get());
    // The caller obeys the term in the answer.
    command.arg("LEAST_TTL").arg(lease.least_ttl.map_or(millis_up(lease.ttl), millis_up));
    if let Some((id, spent)) = &lease.settle {
        command.arg("SETTLE").arg(id.to_string()).arg(*spent);
    }
    full(command, key)
}

pub(crate) fn settle(id: &ReservationId, spent: u64) -> Cmd {
    of_reservation("TG.SETTLE", id, &[spent])
}

pub(crate) fn commit(id: &ReservationId, actual: &[u64]) -> Cmd {
    of_reservation("TG.COMMIT", id, actual)
}

pub(crate) fn renew(id: &ReservationId, ttl: Duration) -> Cmd {
    of_reservation("TG.RENEW", id, &[millis_up(ttl)])
}

fn of_reservation(name: &str, id: &ReservationId, numbers: &[u64]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(id.to_string()).arg(numbers).arg("FULL");
    command
}

fn of_key(name: &str, policy: &str, key: &Key<'_>) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(policy).arg(key.as_bytes());
    command
}

fn full(mut command: Cmd, key: &Key<'_>) -> Cmd {
    command.arg("FULL");
    joined(command, key)
}

fn joined(mut command: Cmd, key: &Key<'_>) -> Cmd {
    if key.is_joined() {
        command.arg("JOINED");
    }
    command
}

/// Milliseconds, rounded up: a reservation of the root must not end before the caller expects it.
fn millis_up(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}
