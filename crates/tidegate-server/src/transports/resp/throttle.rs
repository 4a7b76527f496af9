//! `CL.THROTTLE` of redis-cell: positional numbers, seconds, and 0 for allowed.

use std::time::Duration;

use tidegate::{Burst, Cost, Decision, Limit, Op};
use tidegate_tower::ceil_seconds;

use super::{
    command::{Command, ReplyFormat, argument, key, shown, whole},
    reply::Replies,
    request::Args,
};
use crate::{
    service::{KeyRequest, LimitSource, Price},
    transports::resp::commands::Verb,
};

/// `CL.THROTTLE key max_burst count period_seconds [quantity]`
pub(super) fn parse(args: Args<'_>) -> Result<Command<'_>, String> {
    if args.len() > 6 {
        return Err(Verb::Throttle.info().wrong_number());
    }
    let number = |what: &str, index: usize| {
        let given = argument(args, index);
        let hint = if what == "quantity" { ". To give units back, use TG.CHECK and TG.REFUND" } else { "" };
        whole(given)
            .ok_or_else(|| format!("ERR {what} must be a whole number of at least 0, not `{}`{hint}", shown(given)))
    };
    let capacity = number("max_burst", 2)?.saturating_add(1);
    let (count, period) = (number("count", 3)?, number("period_seconds", 4)?);
    let quantity = if args.len() == 6 { number("quantity", 5)? } else { 1 };
    let burst = Burst::new(capacity).map_err(|error| format!("ERR max_burst + 1: {error}"))?;
    let limit = Limit::new(count, Duration::from_secs(period)).map_err(|error| format!("ERR {error}"))?;
    // A cost of 0 does not exist. A quantity of 0 peeks, which works with any cost.
    let peeks = quantity == 0;
    let cost = Cost::new(quantity.max(1)).map_err(|error| format!("ERR quantity: {error}"))?;
    let request = KeyRequest {
        source: LimitSource::Throttle(burst, limit),
        key: key(argument(args, 1))?,
        price: Price::Cost(cost),
        on_failure: None,
    };
    let op = if peeks { Op::Peek } else { Op::Check };
    Ok(Command::Decide { op, request, format: ReplyFormat::Throttle { capacity, peeks } })
}

/// Writes five numbers. A quantity of 0 always fits.
pub(super) fn write(decision: &Decision, capacity: u64, peeks: bool, out: &mut Replies) {
    let allowed = peeks || decision.is_allowed();
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
