//! [`Look`]: how a series looks. Colours, dashes and patterns are in the style sheet, where light, dark and print each have
//! theirs; here they are names.

/// How a series looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// One of several; each has a colour, a dash and a pattern of its own, the first eight colours are all different.
    Series(usize),
    /// All that was asked for, behind everything else.
    Requests,
    /// What was let through.
    Allowed,
    /// What was denied.
    Denied,
    /// A limit.
    Limit,
    /// A moment or a value worth a look.
    Note,
    /// A value that lines run along: it stays behind them.
    Guide,
}

impl Look {
    /// The colours that series have before they come again.
    pub const COLOURS: usize = 8;
    /// The dashes that series have before they come again.
    pub const DASHES: usize = 6;

    /// Its classes in the style sheet.
    pub(super) fn class(self) -> String {
        match self {
            Self::Series(i) => format!("s{} d{}", i % Self::COLOURS, i % Self::DASHES),
            Self::Requests => "requests".to_owned(),
            Self::Allowed => "allowed".to_owned(),
            Self::Denied => "denied".to_owned(),
            Self::Limit => "limit".to_owned(),
            Self::Note => "note".to_owned(),
            Self::Guide => "guide".to_owned(),
        }
    }
}
