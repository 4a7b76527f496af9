//! `CL.THROTTLE`, as redis-cell has it: numbers in a row, seconds, and 0 for allowed.

use std::time::Duration;

use tidegate::{Burst, Cost, Decision, Limit, Op};
use tidegate_tower::ceil_seconds;

use super::{
    command::{Command, Shape, argument, key, shown, whole},
    reply::Replies,
    request::Args,
};
use crate::{
    service::{Ask, By, Price},
    transports::resp::catalogue::Verb,
};

/// `CL.THROTTLE key max_burst count period_seconds [quantity]`
pub(super) fn read(args: Args<'_>) -> Result<Command<'_>, String> {
    if args.len() > 6 {
        return Err(Verb::Throttle.entry().wrong_number());
    }
    let number = |what: &str, place: usize| {
        let given = argument(args, place);
        whole(given).ok_or_else(|| format!("ERR {what} `{}` is not a whole number from 0 on", shown(given)))
    };
    let capacity = number("max_burst", 2)?.saturating_add(1);
    let (count, period) = (number("count", 3)?, number("period_seconds", 4)?);
    let quantity = if args.len() == 6 { number("quantity", 5)? } else { 1 };
    let burst = Burst::new(capacity).map_err(|error| format!("ERR max_burst + 1: {error}"))?;
    let limit = Limit::new(count, Duration::from_secs(period)).map_err(|error| format!("ERR {error}"))?;
    // There is no cost of 0; who only looks may look with any.
    let looks = quantity == 0;
    let cost = Cost::new(quantity.max(1)).map_err(|error| format!("ERR quantity: {error}"))?;
    let ask = Ask {
        by: By::Throttle(burst, limit),
        key: key(argument(args, 1))?,
        price: Price::Cost(cost),
        on_failure: None,
    };
    let op = if looks { Op::Peek } else { Op::Check };
    Ok(Command::Decide { op, ask, shape: Shape::Throttle { capacity, looks } })
}

/// Five numbers. Nothing always fits, so who only looks is never limited.
pub(super) fn write(decision: &Decision, capacity: u64, looks: bool, out: &mut Replies) {
    let allowed = looks || decision.is_allowed();
    out.array(5);
    out.integer(u8::from(!allowed));
    out.integer(capacity);
    out.integer(decision.remaining());
    match decision.retry_after().filter(|_| !allowed) {
        Some(wait) => out.integer(ceil_seconds(wait)),
        None => out.integer(-1),
    }
    out.integer(ceil_seconds(decision.reset_after()));
}
