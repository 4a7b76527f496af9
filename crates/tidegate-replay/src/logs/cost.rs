//! [`CostSource`]: where the cost of a request comes from.

use std::str::FromStr;

use tidegate::Cost;

use super::{
    fields::{Field, Fields, is_name},
    time::digits,
};

/// Cost of requests: a number, a field of the line, or a table of paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostSource(CostKind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum CostKind {
    Always(u64),
    /// The cost in the trace.
    Trace,
    Field(Field),
    /// The longest matching prefix decides. Other paths cost 1.
    Paths(Vec<(Vec<u8>, u64)>),
}

impl CostSource {
    /// Returns the cost in a trace, and 1 where the trace has none.
    pub fn trace() -> Self {
        Self(CostKind::Trace)
    }

    /// Returns a cost of 1 for every request.
    pub fn one() -> Self {
        Self(CostKind::Always(1))
    }

    /// Parses a table. Each line has a path prefix and its cost, such as `/search 10`. `#` starts a comment.
    ///
    /// # Errors
    /// If a line is invalid.
    pub fn table(text: &str) -> Result<Self, CostSourceError> {
        let mut rows = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let row = line
                    .rsplit_once([' ', '\t', '=', ','])
                    .and_then(|(path, cost)| row(path.trim_end_matches([' ', '\t', '=', ',']), cost));
                rows.push(row.ok_or_else(|| CostSourceError::Row { line: number, text: line.to_owned() })?);
            }
        }
        Ok(Self::paths(rows))
    }

    /// Parses the costs of several path prefixes, such as `/search=10`.
    ///
    /// # Errors
    /// If a text is invalid, or if several texts are not all costs of paths.
    pub fn parse_all(texts: &[String]) -> Result<Self, CostSourceError> {
        match texts {
            [] => Ok(Self::one()),
            [one] => one.parse(),
            several => {
                let mut rows = Vec::new();
                for text in several {
                    match text.parse()? {
                        Self(CostKind::Paths(paths)) => rows.extend(paths),
                        _ => return Err(CostSourceError::Mixed { text: text.clone() }),
                    }
                }
                Ok(Self::paths(rows))
            }
        }
    }

    fn paths(mut rows: Vec<(Vec<u8>, u64)>) -> Self {
        rows.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Self(CostKind::Paths(rows))
    }

    /// Returns the field that holds the cost.
    pub(super) fn field(&self) -> Option<Field> {
        match &self.0 {
            CostKind::Always(_) => None,
            CostKind::Trace => Some(Field::Cost),
            CostKind::Field(field) => Some(field.clone()),
            CostKind::Paths(_) => Some(Field::Path),
        }
    }

    /// Returns the cost of a line. Its field has the number `number`.
    #[inline]
    pub(super) fn of(&self, number: usize, line: &[u8], fields: &Fields) -> Result<u64, &'static str> {
        const RANGE: &str = "its cost is out of range: use 1 to 1000000000000";
        let cost = match &self.0 {
            CostKind::Always(cost) => return Ok(*cost),
            CostKind::Paths(rows) => {
                let path = fields.get(number, line).unwrap_or_default();
                return Ok(rows.iter().find(|(prefix, _)| path.starts_with(prefix)).map_or(1, |(_, cost)| *cost));
            }
            CostKind::Trace => match fields.get(number, line) {
                None => 1,
                Some(text) => digits(text.trim_ascii()).ok_or("its cost is not a whole number")?,
            },
            // A request without a size still costs 1.
            CostKind::Field(_) => match fields.get(number, line) {
                None => 1,
                Some(text) => rounded_up(text).ok_or("the field of its cost is not a number")?.max(1),
            },
        };
        Cost::new(cost).map(Cost::get).map_err(|_| RANGE)
    }
}

/// Parses a number and rounds it up.
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

impl FromStr for CostSource {
    type Err = CostSourceError;

    fn from_str(text: &str) -> Result<Self, CostSourceError> {
        let unknown = || CostSourceError::Unknown { text: text.chars().take(60).collect() };
        if text.starts_with('/') {
            let (path, cost) = text.rsplit_once('=').ok_or_else(unknown)?;
            return Ok(Self::paths(vec![row(path, cost).ok_or_else(unknown)?]));
        }
        let is_field = |name: &&str| name.starts_with(|c: char| c.is_ascii_alphabetic()) && is_name(name);
        let named = text.strip_prefix("field:").filter(|name| !name.is_empty());
        if let Some(name) = named.or(Some(text).filter(is_field)) {
            return Ok(Self(CostKind::Field(Field::Named(name.to_owned()))));
        }
        let cost = text.parse().ok().and_then(|cost| Cost::new(cost).ok()).ok_or_else(unknown)?;
        Ok(Self(CostKind::Always(cost.get())))
    }
}

/// Error of parsing a [`CostSource`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CostSourceError {
    /// The text is not a cost.
    #[error("`{text}` is not a cost: use a number of 1 to 1000000000000, field:bytes, /search=10 or table:FILE")]
    Unknown {
        /// The text.
        text: String,
    },
    /// Several costs that are not all costs of paths.
    #[error(
        "`{text}` can't be combined with other costs: only costs of paths can, as in --cost /search=10 --cost /export=100"
    )]
    Mixed {
        /// The text.
        text: String,
    },
    /// A line of a table is invalid.
    #[error("line {line} of the table, `{text}`, is invalid: write a path and its cost, as in `/search 10`")]
    Row {
        /// Line number.
        line: usize,
        /// The line.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::{CostSource, Fields};

    fn of(cost: &CostSource, value: Option<&str>) -> Result<u64, &'static str> {
        let mut fields = Fields::new(1);
        if let Some(value) = value {
            fields.text(0, value.as_bytes());
        }
        cost.of(0, b"", &fields)
    }

    #[test]
    fn the_cost_in_a_field_is_rounded_up_and_at_least_one() {
        let cost: CostSource = "field:bytes".parse().expect("a cost");
        assert_eq!("bytes".parse(), Ok(cost.clone()));
        let costs = [Some("17"), Some("0"), None, Some("0.25"), Some("1.0"), Some("1000000000000")];
        assert_eq!(costs.map(|value| of(&cost, value)), [Ok(17), Ok(1), Ok(1), Ok(1), Ok(1), Ok(1_000_000_000_000)]);
        assert!(of(&cost, Some("many")).is_err() && of(&cost, Some("1000000000001")).is_err());
        assert!(of(&cost, Some("99999999999999999999999")).is_err());
    }

    #[test]
    fn the_cost_in_a_trace_must_be_a_valid_whole_number() {
        let trace = CostSource::trace();
        assert_eq!((of(&trace, Some("3")), of(&trace, None)), (Ok(3), Ok(1)));
        assert!(["0", "-1", "1.5", "x"].iter().all(|cost| of(&trace, Some(cost)).is_err()));
    }

    #[test]
    fn the_longest_path_prefix_decides_the_cost() {
        let cost = CostSource::parse_all(&["/api=2".into(), "/api/search=10".into()]).expect("a cost");
        let paths = ["/api/search/x", "/api/user", "/", ""].map(|path| of(&cost, Some(path)));
        assert_eq!(paths, [Ok(10), Ok(2), Ok(1), Ok(1)]);
        assert_eq!(CostSource::table("# costs\n/api/search 10\n\n/api = 2 # the rest"), Ok(cost));
        for wrong in ["/api", "/api=0", "search=10", "0", "", "field:", "-1"] {
            assert!(wrong.parse::<CostSource>().is_err(), "{wrong}");
        }
        assert!(CostSource::parse_all(&["/a=1".into(), "5".into()]).is_err() && CostSource::table("/a b").is_err());
    }
}
