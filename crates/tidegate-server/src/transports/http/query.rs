//! [`Query`]: the query of a URL. Unknown names are refused.

use std::borrow::Cow;

use axum::http::StatusCode;

use super::problem::Problem;

/// Names and values, in order.
pub(crate) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Parses a query.
    pub(crate) fn parse(text: Option<&'a str>, known: &[&str]) -> Result<Self, Problem> {
        let pairs: Vec<_> = form_urlencoded::parse(text.unwrap_or("").as_bytes()).collect();
        match pairs.iter().find(|(name, _)| !known.contains(&name.as_ref())) {
            None => Ok(Self(pairs)),
            Some((name, _)) => Err(wrong(name, format!("`{name}` is unknown in the query: use {}", known.join(", ")))),
        }
    }

    /// Returns all values of a name.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_ref()).collect()
    }

    /// Returns the value of a name that is given at most once.
    pub(crate) fn only(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.all(name).as_slice() {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(wrong(name, format!("`{name}` appears more than once in the query: send it once"))),
        }
    }

    /// Returns the value of a name that must be given once.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Problem> {
        self.only(name)?.ok_or_else(|| missing(name))
    }

    /// Returns the values of a name that must be given at least once.
    pub(crate) fn required_all(&self, name: &str) -> Result<Vec<&str>, Problem> {
        Some(self.all(name)).filter(|values| !values.is_empty()).ok_or_else(|| missing(name))
    }

    /// Returns whether a name is `true`; by default it is not.
    pub(crate) fn is(&self, name: &str) -> Result<bool, Problem> {
        match self.only(name)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(wrong(name, format!("`{name}` must be `true` or `false` in the query"))),
        }
    }
}

/// Returns the error for a wrong value in the query.
pub(crate) fn wrong(name: &str, message: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, name, message)
}

fn missing(name: &str) -> Problem {
    wrong(name, format!("`{name}` is missing from the query: add `{name}=…`"))
}
