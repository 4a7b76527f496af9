//! The query of a URL, whose every name has to be known.

use std::borrow::Cow;

use axum::http::StatusCode;

use super::problem::Problem;

/// Names and values, in order.
pub(super) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// Takes a query apart; names that are not known are refused.
pub(super) fn read<'a>(text: &'a str, known: &[&str]) -> Result<Query<'a>, Problem> {
    let pairs: Vec<_> = form_urlencoded::parse(text.as_bytes()).collect();
    match pairs.iter().find(|(name, _)| !known.contains(&name.as_ref())) {
        None => Ok(Query(pairs)),
        Some((name, _)) => {
            let message = format!("`{name}` is not asked for in the query: known are {}", known.join(", "));
            Err(Problem::new(StatusCode::BAD_REQUEST, name.clone(), message))
        }
    }
}

impl Query<'_> {
    /// All values of a name.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_ref()).collect()
    }

    /// Whether a name is said to be so: `true`, `false` or unsaid.
    pub(super) fn is(&self, name: &str) -> Result<bool, Problem> {
        match self.only(name)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => {
                Err(Problem::new(StatusCode::BAD_REQUEST, name, format!("`{name}` is `true` or `false` in the query")))
            }
        }
    }

    /// The value of a name that is given at most once.
    pub(super) fn only(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.all(name).as_slice() {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(Problem::new(
                StatusCode::BAD_REQUEST,
                name,
                format!("`{name}` is given more than once in the query"),
            )),
        }
    }
}
