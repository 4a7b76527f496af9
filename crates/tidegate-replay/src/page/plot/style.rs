//! [`Style`]: the style of a series. The style sheet has the colours, dashes and patterns for light, dark and print.

/// The style of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::page) enum Style {
    /// One of several series. The first eight have different colours.
    Series(usize),
    /// All requests, behind everything else.
    Requests,
    /// Admitted requests.
    Allowed,
    /// Denied requests.
    Denied,
    /// A limit.
    Limit,
    /// A time or a value of interest.
    Note,
    /// A reference value, behind the lines along it.
    Guide,
}

/// Number of different colours and dashes of series.
const COLOURS: usize = 8;
const DASHES: usize = 6;

impl Style {
    /// Returns the classes of the style sheet.
    pub(super) fn class(self) -> String {
        match self {
            Self::Series(i) => format!("s{} d{}", i % COLOURS, i % DASHES),
            Self::Requests => "requests".to_owned(),
            Self::Allowed => "allowed".to_owned(),
            Self::Denied => "denied".to_owned(),
            Self::Limit => "limit".to_owned(),
            Self::Note => "note".to_owned(),
            Self::Guide => "guide".to_owned(),
        }
    }
}
