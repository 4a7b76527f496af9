//! [`Command`]: the arguments of a command that decides, to what is asked of the service.

use std::str::FromStr;

use tidegate::{Algorithm, Cost, Key, Limit, OnStoreFailure, Op, Timestamp};

use super::{catalogue::Verb, request::Args, throttle};
use crate::service::{Ask, By, Price};

/// What is asked of the service.
#[derive(Debug)]
pub(crate) enum Command<'a> {
    Decide { op: Op, ask: Ask<'a>, shape: Shape },
    DecideAll { asks: Vec<Ask<'a>>, shape: Shape },
    Refund { ask: Ask<'a>, charged_at: Timestamp },
    Forget(Ask<'a>),
    Inspect(Ask<'a>),
}

/// How a decision is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// In six numbers.
    Six,
    /// By name.
    Full,
    /// As redis-cell does; whether the caller only looks.
    Throttle { capacity: u64, looks: bool },
}

/// What follows the arguments that have a place.
#[derive(Debug, Default)]
struct Options<'a> {
    cost: Option<Cost>,
    operation: Option<&'a str>,
    algorithm: Option<Algorithm>,
    on_failure: Option<OnStoreFailure>,
    full: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Cost,
    Operation,
    Algorithm,
    OnFail,
    Full,
}

impl Name {
    fn of(word: &[u8]) -> Option<Self> {
        let names = [
            ("COST", Self::Cost),
            ("OPERATION", Self::Operation),
            ("ALGORITHM", Self::Algorithm),
            ("ONFAIL", Self::OnFail),
            ("FULL", Self::Full),
        ];
        names.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes())).map(|(_, name)| name)
    }
}

impl<'a> Command<'a> {
    /// Reads a command that asks for something only the service can say; what is wrong with it otherwise. `None` for those
    /// that the session answers.
    #[inline]
    pub(crate) fn read(verb: Verb, args: Args<'a>) -> Result<Option<Self>, String> {
        Ok(Some(match verb {
            Verb::Check => {
                let options = match args.len() {
                    3 => Options::default(),
                    _ => Options::read(verb, args, 3, &[Name::Cost, Name::Operation, Name::OnFail, Name::Full])?,
                };
                Self::one(Op::Check, args, &options)?
            }
            Verb::Peek => Self::one(Op::Peek, args, &Options::read(verb, args, 3, &[Name::Cost, Name::Full])?)?,
            Verb::Charge => {
                let mut options = Options::read(verb, args, 4, &[Name::Full])?;
                options.cost = Some(cost("the cost", argument(args, 3))?);
                Self::one(Op::Charge, args, &options)?
            }
            Verb::CheckAll => Self::several(verb, args)?,
            Verb::Limit => Self::by_limits(verb, args)?,
            Verb::Refund => Self::Refund {
                ask: by_policy(args, Price::Cost(cost("the cost", argument(args, 3))?), None)?,
                charged_at: charged_at(argument(args, 4))?,
            },
            Verb::Forget => Self::Forget(by_policy(args, Price::Cost(Cost::ONE), None)?),
            Verb::Inspect => Self::Inspect(by_policy(args, Price::Cost(Cost::ONE), None)?),
            Verb::Throttle => throttle::read(args)?,
            _ => return Ok(None),
        }))
    }

    /// How many decisions it asks for.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Self::DecideAll { asks, .. } => asks.len(),
            _ => 1,
        }
    }

    /// Whether others of the same caller may be under way together with it. Those that give back, forget or show wait for
    /// what came before them.
    pub(crate) fn decides(&self) -> bool {
        matches!(self, Self::Decide { .. } | Self::DecideAll { .. })
    }

    #[inline]
    fn one(op: Op, args: Args<'a>, options: &Options<'a>) -> Result<Self, String> {
        let ask = by_policy(args, options.price()?, options.on_failure)?;
        Ok(Self::Decide { op, ask, shape: options.shape() })
    }

    fn several(verb: Verb, args: Args<'a>) -> Result<Self, String> {
        let given = args.len() - 1;
        let full = given % 3 == 1 && Name::of(argument(args, given)) == Some(Name::Full);
        if given % 3 != usize::from(full) {
            return Err(verb.entry().wrong_number());
        }
        let ask = |at: usize| {
            Ok(Ask {
                by: By::Policy(text("policy's name", argument(args, at))?),
                key: key(argument(args, at + 1))?,
                price: Price::Cost(cost("the cost", argument(args, at + 2))?),
                on_failure: None,
            })
        };
        let asks = (1..given).step_by(3).map(ask).collect::<Result<_, String>>()?;
        Ok(Self::DecideAll { asks, shape: if full { Shape::Full } else { Shape::Six } })
    }

    fn by_limits(verb: Verb, args: Args<'a>) -> Result<Self, String> {
        let is_limit = |at: &usize| args.get(*at).is_some_and(|word| Name::of(word).is_none());
        let limits: Vec<usize> = (2..args.len()).take_while(is_limit).collect();
        let read = |at: &usize| parsed::<Limit>("limit", argument(args, *at));
        let options =
            Options::read(verb, args, 2 + limits.len(), &[Name::Cost, Name::Algorithm, Name::OnFail, Name::Full])?;
        let limits = limits.iter().map(read).collect::<Result<_, String>>()?;
        let ask = Ask {
            by: By::Limits(limits, options.algorithm.unwrap_or_default()),
            key: key(argument(args, 1))?,
            price: options.price()?,
            on_failure: options.on_failure,
        };
        Ok(Self::Decide { op: Op::Check, ask, shape: options.shape() })
    }
}

impl<'a> Options<'a> {
    fn read(verb: Verb, args: Args<'a>, first: usize, known: &[Name]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut at = first;
        while let Some(word) = args.get(at) {
            let Some(name) = Name::of(word).filter(|name| known.contains(name)) else {
                let (word, entry) = (shown(word), verb.entry());
                return Err(format!("ERR syntax error: `{word}` is no option, use {} {}", entry.name, entry.usage));
            };
            at += 1;
            if name == Name::Full {
                options.full = true;
                continue;
            }
            let value = args.get(at).ok_or_else(|| verb.entry().wrong_number())?;
            at += 1;
            match name {
                Name::Cost => options.cost = Some(cost("COST", value)?),
                Name::Operation => options.operation = Some(text("operation's name", value)?),
                Name::Algorithm => options.algorithm = Some(parsed("algorithm", value)?),
                Name::OnFail => options.on_failure = Some(on_failure(value)?),
                Name::Full => {}
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
            (Some(_), Some(_)) => Err("ERR COST and OPERATION both say what it costs: give one of them".to_owned()),
        }
    }

    #[inline]
    fn shape(&self) -> Shape {
        if self.full { Shape::Full } else { Shape::Six }
    }
}

#[inline]
fn by_policy<'a>(args: Args<'a>, price: Price<'a>, on_failure: Option<OnStoreFailure>) -> Result<Ask<'a>, String> {
    let name = text("policy's name", argument(args, 1))?;
    Ok(Ask { by: By::Policy(name), key: key(argument(args, 2))?, price, on_failure })
}

/// An argument that is there: the number of them was looked at before.
#[inline]
pub(super) fn argument(args: Args<'_>, place: usize) -> &[u8] {
    args.get(place).unwrap_or_default()
}

#[inline]
pub(super) fn key(bytes: &[u8]) -> Result<Key<'_>, String> {
    Key::new(bytes).map_err(|error| format!("ERR {error}"))
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

fn charged_at(bytes: &[u8]) -> Result<Timestamp, String> {
    whole(bytes).map(Timestamp::from_micros).ok_or_else(|| {
        let given = shown(bytes);
        format!("ERR charged_at_us `{given}` is not a time: use the sixth number of the answer that charged")
    })
}

/// Digits alone, as far as 64 bits go.
pub(super) fn whole(bytes: &[u8]) -> Option<u64> {
    let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(bytes).ok().filter(|_| digits)?.parse().ok()
}

/// What a caller sent, as an error can show it.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(128)]).into_owned()
}
