//! [`Command`]: parses the arguments of the commands that the service answers.

use std::{str::FromStr, time::Duration};

use smallvec::SmallVec;
use tidegate::{Algorithm, Cost, Hold, Key, Lease, Limit, OnStoreFailure, Op, ReservationId, Timestamp};

use super::{commands::Verb, request::Args, throttle};
use crate::service::{KeyRequest, LimitSource, Price, ReservationChange};

/// A command for the service.
#[derive(Debug)]
pub(crate) enum Command<'a> {
    Decide {
        op: Op,
        request: KeyRequest<'a>,
        format: ReplyFormat,
    },
    DecideAll {
        op: Op,
        requests: Vec<KeyRequest<'a>>,
        format: ReplyFormat,
    },
    Reserve {
        request: KeyRequest<'a>,
        hold: Hold,
        format: ReplyFormat,
    },
    Lease {
        request: KeyRequest<'a>,
        lease: Lease,
        format: ReplyFormat,
    },
    Commit {
        id: &'a str,
        // Nearly always one.
        actual: SmallVec<[u64; 1]>,
        format: ReplyFormat,
    },
    /// A release, a renewal or a settle.
    Change {
        id: &'a str,
        change: ReservationChange<'static>,
        format: ReplyFormat,
    },
    Refund {
        request: KeyRequest<'a>,
        charged_at: Timestamp,
        format: ReplyFormat,
    },
    Reset(KeyRequest<'a>),
    Inspect(KeyRequest<'a>),
}

/// The format of the reply to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyFormat {
    /// Six numbers.
    Six,
    /// Names and values.
    Full,
    /// The format of redis-cell.
    Throttle { capacity: u64, peeks: bool },
}

const NOT_JOINED: &str =
    "ERR the key is not the encoding of a list: with JOINED, write the length of each part in two bytes, then the part";

/// The options after the positional arguments.
#[derive(Debug, Default)]
struct Options<'a> {
    cost: Option<Cost>,
    operation: Option<&'a str>,
    algorithm: Option<Algorithm>,
    on_failure: Option<OnStoreFailure>,
    full: bool,
    /// The units of a hold stay spent at its end.
    spent: bool,
    least: Option<Cost>,
    settle: Option<(ReservationId, u64)>,
    least_ttl: Option<Duration>,
    /// The key is the encoding of a list of parts.
    joined: bool,
    op: Option<Op>,
}

/// Returns the option with this name, in any case.
fn option_name(word: &[u8]) -> Option<&'static str> {
    let names =
        ["COST", "OPERATION", "ALGORITHM", "ONFAIL", "FULL", "SPENT", "LEAST", "SETTLE", "LEAST_TTL", "JOINED", "OP"];
    names.into_iter().find(|name| word.eq_ignore_ascii_case(name.as_bytes()))
}

impl<'a> Command<'a> {
    /// Parses a command for the service. Returns `None` for commands that the session answers.
    #[inline]
    pub(crate) fn parse(verb: Verb, args: Args<'a>) -> Result<Option<Self>, String> {
        Ok(Some(match verb {
            Verb::Check => {
                let options = Options::parse(verb, args, 3, &["COST", "OPERATION", "ONFAIL", "FULL", "JOINED"])?;
                Self::one(Op::Check, args, &options)?
            }
            Verb::Peek => Self::one(Op::Peek, args, &Options::parse(verb, args, 3, &["COST", "FULL", "JOINED"])?)?,
            Verb::Charge => {
                let mut options = Options::parse(verb, args, 4, &["FULL", "JOINED"])?;
                options.cost = Some(cost("the cost", argument(args, 3))?);
                Self::one(Op::Charge, args, &options)?
            }
            Verb::CheckAll => Self::several(verb, args)?,
            Verb::Limit => Self::by_limits(verb, args)?,
            Verb::Reserve => Self::reserve(verb, args)?,
            Verb::Lease => Self::lease(verb, args)?,
            Verb::Commit => Self::commit(verb, args)?,
            Verb::Release => Self::change(verb, args, 2, ReservationChange::Release)?,
            Verb::Renew => Self::change(verb, args, 3, ReservationChange::Renew(ttl(argument(args, 2))?))?,
            Verb::Settle => Self::change(verb, args, 3, ReservationChange::Settle(spent(argument(args, 2))?))?,
            Verb::Refund => {
                let options = Options::parse(verb, args, 5, &["FULL", "JOINED"])?;
                let price = Price::Cost(cost("the cost", argument(args, 3))?);
                Self::Refund {
                    request: by_policy(args, price, &options)?,
                    charged_at: charged_at(argument(args, 4))?,
                    format: options.format(),
                }
            }
            Verb::Forget => Self::Reset(Self::of_key(verb, args)?),
            Verb::Inspect => Self::Inspect(Self::of_key(verb, args)?),
            Verb::Throttle => throttle::parse(args)?,
            _ => return Ok(None),
        }))
    }

    /// Returns the number of decisions, and of commits and the like. They may run concurrently with others of the same
    /// caller. Refund, reset and inspect wait for the commands before them.
    pub(crate) fn decisions(&self) -> usize {
        match self {
            Self::Decide { .. }
            | Self::Reserve { .. }
            | Self::Lease { .. }
            | Self::Commit { .. }
            | Self::Change { .. } => 1,
            Self::DecideAll { requests, .. } => requests.len(),
            Self::Refund { .. } | Self::Reset(_) | Self::Inspect(_) => 0,
        }
    }

    #[inline]
    fn one(op: Op, args: Args<'a>, options: &Options<'a>) -> Result<Self, String> {
        let request = by_policy(args, options.price()?, options)?;
        Ok(Self::Decide { op, request, format: options.format() })
    }

    fn of_key(verb: Verb, args: Args<'a>) -> Result<KeyRequest<'a>, String> {
        by_policy(args, Price::Cost(Cost::ONE), &Options::parse(verb, args, 3, &["JOINED"])?)
    }

    fn several(verb: Verb, args: Args<'a>) -> Result<Self, String> {
        // No cost is FULL. Before it are options with a value. The remainder says how many.
        let full = option_name(argument(args, args.len() - 1)) == Some("FULL");
        let given = args.len() - 1 - usize::from(full);
        let options = if full { [0, 4, 2][given % 3] } else { 0 };
        let of_requests = given.saturating_sub(options);
        if of_requests == 0 || !of_requests.is_multiple_of(3) {
            return Err(verb.info().wrong_number());
        }
        let (mut op, mut joined) = (Op::Check, None);
        for at in (of_requests + 1..given).step_by(2) {
            match (option_name(argument(args, at)), argument(args, at + 1)) {
                (Some("OP"), value) => op = operation(value)?,
                (Some("JOINED"), digits) if digits.len() == of_requests / 3 => joined = Some(digits),
                _ => return Err(verb.info().wrong_number()),
            }
        }
        let request = |at: usize| {
            let is_joined = joined.is_some_and(|digits| digits[at / 3] == b'1');
            Ok(KeyRequest {
                source: LimitSource::Policy(text("policy's name", argument(args, at))?),
                key: key_of(argument(args, at + 1), is_joined)?,
                price: Price::Cost(cost("the cost", argument(args, at + 2))?),
                on_failure: None,
            })
        };
        let requests = (1..of_requests).step_by(3).map(request).collect::<Result<_, String>>()?;
        Ok(Self::DecideAll { op, requests, format: if full { ReplyFormat::Full } else { ReplyFormat::Six } })
    }

    fn reserve(verb: Verb, args: Args<'a>) -> Result<Self, String> {
        let options = Options::parse(verb, args, 5, &["SPENT", "FULL", "JOINED"])?;
        let request = by_policy(args, Price::Cost(cost("the cost", argument(args, 3))?), &options)?;
        let hold = Hold::new(ttl(argument(args, 4))?);
        let hold = if options.spent { hold.spent_at_end() } else { hold };
        Ok(Self::Reserve { request, hold, format: options.format() })
    }

    fn lease(verb: Verb, args: Args<'a>) -> Result<Self, String> {
        let options = Options::parse(verb, args, 5, &["LEAST", "LEAST_TTL", "SETTLE", "FULL", "JOINED"])?;
        let format = options.format();
        if options.least_ttl.is_some() && format != ReplyFormat::Full {
            return Err("ERR LEAST_TTL needs FULL, because only that reply has the granted term".to_owned());
        }
        let request = by_policy(args, Price::Cost(Cost::ONE), &options)?;
        let lease = Lease::new(cost("the number of units", argument(args, 3))?, ttl(argument(args, 4))?);
        let lease = lease.least(options.least.unwrap_or(Cost::ONE));
        let lease = match options.least_ttl {
            Some(shortest) => lease.least_ttl(shortest),
            None => lease,
        };
        let lease = match options.settle {
            Some((id, spent)) => lease.settling(id, spent),
            None => lease,
        };
        Ok(Self::Lease { request, lease, format })
    }

    fn commit(verb: Verb, args: Args<'a>) -> Result<Self, String> {
        let is_amount = |at: &usize| args.get(*at).is_some_and(|word| option_name(word).is_none());
        let count = (2..args.len()).take_while(is_amount).count();
        if count == 0 {
            return Err(verb.info().wrong_number());
        }
        let options = Options::parse(verb, args, 2 + count, &["FULL"])?;
        let actual = (2..2 + count).map(|at| units("the actual cost", argument(args, at)));
        Ok(Self::Commit { id: id(args)?, actual: actual.collect::<Result<_, _>>()?, format: options.format() })
    }

    fn change(verb: Verb, args: Args<'a>, first: usize, change: ReservationChange<'static>) -> Result<Self, String> {
        let options = Options::parse(verb, args, first, &["FULL"])?;
        Ok(Self::Change { id: id(args)?, change, format: options.format() })
    }

    fn by_limits(verb: Verb, args: Args<'a>) -> Result<Self, String> {
        let is_limit = |at: &usize| args.get(*at).is_some_and(|word| option_name(word).is_none());
        let limits: Vec<usize> = (2..args.len()).take_while(is_limit).collect();
        let read = |at: &usize| parsed::<Limit>("limit", argument(args, *at));
        let options =
            Options::parse(verb, args, 2 + limits.len(), &["COST", "ALGORITHM", "ONFAIL", "FULL", "JOINED", "OP"])?;
        let limits = limits.iter().map(read).collect::<Result<_, String>>()?;
        let request = KeyRequest {
            source: LimitSource::Limits(limits, options.algorithm.unwrap_or_default()),
            key: key_of(argument(args, 1), options.joined)?,
            price: options.price()?,
            on_failure: options.on_failure,
        };
        Ok(Self::Decide { op: options.op.unwrap_or(Op::Check), request, format: options.format() })
    }
}

impl<'a> Options<'a> {
    fn parse(verb: Verb, args: Args<'a>, first: usize, known: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut at = first;
        while let Some(word) = args.get(at) {
            let Some(name) = option_name(word).filter(|name| known.contains(name)) else {
                let (word, info) = (shown(word), verb.info());
                return Err(format!("ERR syntax error: `{word}` is not an option, use {} {}", info.name, info.usage));
            };
            at += 1;
            match name {
                "FULL" => {
                    options.full = true;
                    continue;
                }
                "SPENT" => {
                    options.spent = true;
                    continue;
                }
                "JOINED" => {
                    options.joined = true;
                    continue;
                }
                _ => {}
            }
            let value = args.get(at).ok_or_else(|| verb.info().wrong_number())?;
            at += 1;
            match name {
                "COST" => options.cost = Some(cost("COST", value)?),
                "OPERATION" => options.operation = Some(text("operation's name", value)?),
                "LEAST" => options.least = Some(cost("LEAST", value)?),
                "SETTLE" => {
                    let units = args.get(at).ok_or_else(|| verb.info().wrong_number())?;
                    at += 1;
                    options.settle = Some((parsed("reservation's id", value)?, spent(units)?));
                }
                "LEAST_TTL" => options.least_ttl = Some(ttl(value)?),
                "OP" => options.op = Some(operation(value)?),
                "ALGORITHM" => options.algorithm = Some(parsed("algorithm", value)?),
                _ => options.on_failure = Some(on_failure(value)?),
            }
        }
        Ok(options)
    }

    #[inline]
    fn price(&self) -> Result<Price<'a>, String> {
        match (self.cost, self.operation) {
            (None, None) => Ok(Price::Cost(Cost::ONE)),
            (Some(cost), None) => Ok(Price::Cost(cost)),
            (None, Some(operation)) => Ok(Price::Operation(operation)),
            (Some(_), Some(_)) => Err("ERR COST and OPERATION can't be combined: use one of them".to_owned()),
        }
    }

    #[inline]
    fn format(&self) -> ReplyFormat {
        if self.full { ReplyFormat::Full } else { ReplyFormat::Six }
    }
}

#[inline]
fn by_policy<'a>(args: Args<'a>, price: Price<'a>, options: &Options<'a>) -> Result<KeyRequest<'a>, String> {
    let name = text("policy's name", argument(args, 1))?;
    let key = key_of(argument(args, 2), options.joined)?;
    Ok(KeyRequest { source: LimitSource::Policy(name), key, price, on_failure: options.on_failure })
}

/// Returns an argument. The number of arguments was checked before.
#[inline]
pub(super) fn argument(args: Args<'_>, index: usize) -> &[u8] {
    args.get(index).unwrap_or_default()
}

#[inline]
pub(super) fn key(bytes: &[u8]) -> Result<Key<'_>, String> {
    Key::new(bytes).map_err(|error| format!("ERR {error}"))
}

/// Returns a key, or the key that is joined from the parts in its encoding: the length of each part in two bytes, then the
/// part.
#[inline]
fn key_of(bytes: &[u8], is_joined: bool) -> Result<Key<'_>, String> {
    if !is_joined {
        return key(bytes);
    }
    let (mut parts, mut rest) = (Vec::new(), bytes);
    while let Some((len, after)) = rest.split_first_chunk() {
        let (part, after) = after.split_at_checked(u16::from_be_bytes(*len).into()).ok_or(NOT_JOINED)?;
        parts.push(part);
        rest = after;
    }
    if !rest.is_empty() {
        return Err(NOT_JOINED.to_owned());
    }
    Key::join(parts).map_err(|error| format!("ERR {error}"))
}

fn operation(word: &[u8]) -> Result<Op, String> {
    let named = [(Op::Check, "check"), (Op::Peek, "peek"), (Op::Charge, "charge")];
    let found = named.into_iter().find(|(_, name)| word.eq_ignore_ascii_case(name.as_bytes()));
    found.map(|(op, _)| op).ok_or_else(|| format!("ERR OP `{}` is unknown: use check, peek or charge", shown(word)))
}

#[inline]
fn text<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a str, String> {
    std::str::from_utf8(bytes).map_err(|_| format!("ERR the {what} `{}` is not UTF-8", shown(bytes)))
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(what: &str, bytes: &[u8]) -> Result<T, String> {
    text(what, bytes)?.parse().map_err(|error| format!("ERR {error}"))
}

fn on_failure(bytes: &[u8]) -> Result<OnStoreFailure, String> {
    parsed("choice", bytes.to_ascii_lowercase().get(..bytes.len().min(64)).unwrap_or_default())
}

fn cost(what: &str, bytes: &[u8]) -> Result<Cost, String> {
    let units = whole(bytes)
        .ok_or_else(|| format!("ERR {what} `{}` is not a whole number: use 1 to 1000000000000", shown(bytes)))?;
    Cost::new(units).map_err(|error| format!("ERR {error}"))
}

/// Returns the id of a reservation, which the service parses.
fn id(args: Args<'_>) -> Result<&str, String> {
    text("reservation's id", argument(args, 1))
}

fn ttl(bytes: &[u8]) -> Result<Duration, String> {
    whole(bytes).map(Duration::from_millis).ok_or_else(|| {
        let given = shown(bytes);
        format!("ERR ttl_ms `{given}` is not a whole number: use milliseconds, 1 or more")
    })
}

fn spent(bytes: &[u8]) -> Result<u64, String> {
    units("the number of spent units", bytes)
}

/// Parses a number of units that may be 0.
fn units(what: &str, bytes: &[u8]) -> Result<u64, String> {
    whole(bytes).ok_or_else(|| format!("ERR {what} `{}` is not a whole number: use 0 to 1000000000000", shown(bytes)))
}

fn charged_at(bytes: &[u8]) -> Result<Timestamp, String> {
    whole(bytes).map(Timestamp::from_micros).ok_or_else(|| {
        let given = shown(bytes);
        format!("ERR charged_at_us `{given}` is not a time: use the sixth number of the reply to the charge")
    })
}

/// Parses a number of digits only.
pub(super) fn whole(bytes: &[u8]) -> Option<u64> {
    let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(bytes).ok().filter(|_| digits)?.parse().ok()
}

/// Returns input of a caller as text for an error.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(128)]).into_owned()
}
