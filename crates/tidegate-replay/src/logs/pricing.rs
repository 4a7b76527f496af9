//! [`Price`]: what a request costs.

use std::str::FromStr;

use tidegate::Cost;

use super::{
    fields::{Field, Fields},
    moment::digits,
};

/// What requests cost: a number, a field of theirs, or a table by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Always(u64),
    /// As the trace says.
    Trace,
    Field(Field),
    /// The longest prefix wins; what no prefix fits costs 1.
    Paths(Vec<(Vec<u8>, u64)>),
}

impl Price {
    /// What the trace says; 1 where it says nothing.
    pub fn of_trace() -> Self {
        Self(Kind::Trace)
    }

    /// Each request costs 1.
    pub fn one() -> Self {
        Self(Kind::Always(1))
    }

    /// Reads a table: on each line a prefix of paths and what they cost, `/search 10`. `#` begins a remark.
    ///
    /// # Errors
    /// If a line is none of that.
    pub fn table(text: &str) -> Result<Self, PriceError> {
        let mut rows = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let row = line
                    .rsplit_once([' ', '\t', '=', ','])
                    .and_then(|(path, cost)| row(path.trim_end_matches([' ', '\t', '=', ',']), cost));
                rows.push(row.ok_or_else(|| PriceError::Row { line: number, text: line.to_owned() })?);
            }
        }
        Ok(Self::paths(rows))
    }

    /// A price for each of several prefixes of paths, such as `/search=10`.
    ///
    /// # Errors
    /// If one can't be read, or if they are not all of that kind.
    pub fn several(texts: &[String]) -> Result<Self, PriceError> {
        match texts {
            [] => Ok(Self::one()),
            [one] => one.parse(),
            several => {
                let mut rows = Vec::new();
                for text in several {
                    match text.parse()? {
                        Self(Kind::Paths(paths)) => rows.extend(paths),
                        _ => return Err(PriceError::Mixed { text: text.clone() }),
                    }
                }
                Ok(Self::paths(rows))
            }
        }
    }

    fn paths(mut rows: Vec<(Vec<u8>, u64)>) -> Self {
        rows.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Self(Kind::Paths(rows))
    }

    /// The field that it is taken from.
    pub(super) fn field(&self) -> Option<Field> {
        match &self.0 {
            Kind::Always(_) => None,
            Kind::Trace => Some(Field::Cost),
            Kind::Field(field) => Some(field.clone()),
            Kind::Paths(_) => Some(Field::Path),
        }
    }

    /// What a line costs whose field is number `number`.
    #[inline]
    pub(super) fn of(&self, number: usize, line: &[u8], fields: &Fields) -> Result<u64, &'static str> {
        const RANGE: &str = "its cost is out of range: use 1 to 1000000000000";
        let cost = match &self.0 {
            Kind::Always(cost) => return Ok(*cost),
            Kind::Paths(rows) => {
                let path = fields.get(number, line).unwrap_or_default();
                return Ok(rows.iter().find(|(prefix, _)| path.starts_with(prefix)).map_or(1, |(_, cost)| *cost));
            }
            Kind::Trace => match fields.get(number, line) {
                None => 1,
                Some(text) => digits(text.trim_ascii()).ok_or("its cost is not a whole number")?,
            },
            // What has no size, or none to speak of, is still a request.
            Kind::Field(_) => match fields.get(number, line) {
                None => 1,
                Some(text) => rounded_up(text).ok_or("the field of its cost is not a number")?.max(1),
            },
        };
        Cost::new(cost).map(Cost::get).map_err(|_| RANGE)
    }
}

/// A number, with a fraction or not, to the next whole one.
fn rounded_up(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let point = memchr::memchr(b'.', text).unwrap_or(text.len());
    let fraction = text.get(point + 1..).unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits(&text[..point])?.checked_add(u64::from(fraction.iter().any(|digit| *digit != b'0')))
}

fn row(path: &str, cost: &str) -> Option<(Vec<u8>, u64)> {
    let cost = cost.trim().parse().ok().and_then(|cost| Cost::new(cost).ok())?;
    path.starts_with('/').then(|| (path.as_bytes().to_vec(), cost.get()))
}

impl FromStr for Price {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let unknown = || PriceError::Unknown { text: text.chars().take(60).collect() };
        if let Some(name) = text.strip_prefix("field:") {
            return if name.is_empty() { Err(unknown()) } else { Ok(Self(Kind::Field(Field::Named(name.to_owned())))) };
        }
        if text.starts_with('/') {
            let (path, cost) = text.rsplit_once('=').ok_or_else(unknown)?;
            return Ok(Self::paths(vec![row(path, cost).ok_or_else(unknown)?]));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.@".contains(c);
        if text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_name) {
            return Ok(Self(Kind::Field(Field::Named(text.to_owned()))));
        }
        let cost = text.parse().ok().and_then(|cost| Cost::new(cost).ok()).ok_or_else(unknown)?;
        Ok(Self(Kind::Always(cost.get())))
    }
}

/// Why a [`Price`] was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// It is no price.
    #[error("`{text}` is no cost: use a number of 1 to 1000000000000, field:bytes, /search=10 or table:FILE")]
    Unknown {
        /// What was asked for.
        text: String,
    },
    /// Several prices that are not all by path.
    #[error(
        "`{text}` can't stand beside other costs: only those by path can, as in --cost /search=10 --cost /export=100"
    )]
    Mixed {
        /// The one that is not.
        text: String,
    },
    /// A line of a table is not one.
    #[error("line {line} of the table, `{text}`, is no price: write a path and what it costs, as in `/search 10`")]
    Row {
        /// Its number.
        line: usize,
        /// What it says.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::{Fields, Price};

    fn of(price: &Price, value: Option<&str>) -> Result<u64, &'static str> {
        let mut fields = Fields::new(1);
        if let Some(value) = value {
            fields.text(0, value.as_bytes());
        }
        price.of(0, b"", &fields)
    }

    #[test]
    fn a_field_costs_what_it_says_rounded_up_and_at_least_one() {
        let price: Price = "field:bytes".parse().expect("a price");
        assert_eq!("bytes".parse(), Ok(price.clone()));
        let costs = [Some("17"), Some("0"), None, Some("0.25"), Some("1.0"), Some("1000000000000")];
        assert_eq!(costs.map(|value| of(&price, value)), [Ok(17), Ok(1), Ok(1), Ok(1), Ok(1), Ok(1_000_000_000_000)]);
        assert!(of(&price, Some("many")).is_err() && of(&price, Some("1000000000001")).is_err());
        assert!(of(&price, Some("99999999999999999999999")).is_err());
    }

    #[test]
    fn a_trace_is_taken_by_its_word() {
        let trace = Price::of_trace();
        assert_eq!((of(&trace, Some("3")), of(&trace, None)), (Ok(3), Ok(1)));
        assert!(["0", "-1", "1.5", "x"].iter().all(|cost| of(&trace, Some(cost)).is_err()));
    }

    #[test]
    fn the_longest_prefix_names_the_price() {
        let price = Price::several(&["/api=2".into(), "/api/search=10".into()]).expect("a price");
        let paths = ["/api/search/x", "/api/user", "/", ""].map(|path| of(&price, Some(path)));
        assert_eq!(paths, [Ok(10), Ok(2), Ok(1), Ok(1)]);
        assert_eq!(Price::table("# prices\n/api/search 10\n\n/api = 2 # the rest"), Ok(price));
        for wrong in ["/api", "/api=0", "search=10", "0", "", "field:", "-1"] {
            assert!(wrong.parse::<Price>().is_err(), "{wrong}");
        }
        assert!(Price::several(&["/a=1".into(), "5".into()]).is_err() && Price::table("/a b").is_err());
    }
}
