//! [`Format`]: the format of a log. Each format finds the wanted fields and the time of a line.

mod access_log;
mod csv_trace;
mod json_lines;
mod template;

use access_log::AccessLog;
use csv_trace::CsvTrace;
use json_lines::JsonLines;
use template::Template;

use super::{
    LogError,
    fields::{Field, Fields},
};

/// The format of a log, as the user chooses it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FormatChoice {
    /// Detected from the first lines.
    #[default]
    Auto,
    /// The common or combined format of nginx and Apache.
    AccessLog,
    /// An nginx `log_format`.
    Template(String),
    /// One JSON object per line.
    Json {
        /// Name of the field that holds the time, where it has an uncommon name.
        time: Option<String>,
    },
    /// A trace: `time_us,key,cost`.
    Csv,
}

/// Reason why a line is malformed.
pub(super) type LineError = &'static str;

/// A format with its wanted fields.
#[derive(Debug)]
pub(super) enum Format {
    AccessLog(AccessLog),
    Template(Template),
    Json(JsonLines),
    Csv(CsvTrace),
}

impl Default for Format {
    /// Returns the format of a file without lines.
    fn default() -> Self {
        Self::AccessLog(AccessLog::default())
    }
}

/// A field that a format lacks, and a hint at the fields that it has.
type NoField = (Field, String);

impl FormatChoice {
    /// Returns this format, or the one that is detected from the beginning of a file.
    pub(super) fn detected(&self, beginning: &[u8]) -> Self {
        if *self != Self::Auto {
            return self.clone();
        }
        let text = beginning.strip_prefix(MARK).unwrap_or(beginning);
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        let lines: Vec<&[u8]> = lines.take(20).collect();
        // Most lines decide, because the first line may be odd.
        let json = lines.iter().filter(|line| line.starts_with(b"{")).count();
        match lines.first() {
            Some(first) if csv_trace::is_header(first) => Self::Csv,
            _ if json * 2 > lines.len() => Self::Json { time: None },
            _ => Self::AccessLog,
        }
    }
}

/// Some editors write a byte order mark.
const MARK: &[u8] = b"\xef\xbb\xbf";

impl Format {
    /// Creates the format of a file that begins with `beginning`. Also returns the length of its header.
    pub(super) fn new(
        choice: &FormatChoice,
        beginning: &[u8],
        wanted: &[Field],
        name: &str,
    ) -> Result<(Self, usize), LogError> {
        let text = beginning.strip_prefix(MARK).unwrap_or(beginning);
        let mark = beginning.len() - text.len();
        let no_field = |format: &'static str| {
            move |(field, known): NoField| LogError::NoField {
                name: name.to_owned(),
                format,
                field: field.name(),
                known,
            }
        };
        Ok(match choice.detected(beginning) {
            FormatChoice::Template(text) => {
                let template = Template::new(&text, wanted).map_err(|why| LogError::Template { why })?;
                (Self::Template(template), mark)
            }
            FormatChoice::Json { time } => {
                let json = JsonLines::new(wanted, time.as_deref()).map_err(no_field("a JSON log"))?;
                (Self::Json(json), mark)
            }
            FormatChoice::Csv => {
                let (trace, header) = CsvTrace::new(text, wanted).map_err(no_field("a trace"))?;
                (Self::Csv(trace), mark + header)
            }
            FormatChoice::AccessLog | FormatChoice::Auto => {
                (Self::AccessLog(AccessLog::new(wanted).map_err(no_field("an access log"))?), mark)
            }
        })
    }

    /// Returns whether this is a trace, whose lines are in the order of the requests.
    pub(super) fn is_trace(&self) -> bool {
        matches!(self, Self::Csv(_))
    }

    /// Returns whether the time of the last line is the start of its request, as far as the format says.
    pub(super) fn has_time_of_start(&self) -> bool {
        match self {
            Self::AccessLog(_) | Self::Template(_) => false,
            Self::Json(json) => json.has_time_of_start(),
            Self::Csv(_) => true,
        }
    }

    /// Finds the wanted fields of a line. Returns its time in microseconds since the epoch.
    #[inline]
    pub(super) fn read(&mut self, line: &[u8], fields: &mut Fields) -> Result<u64, LineError> {
        match self {
            Self::AccessLog(log) => log.read(line, fields),
            Self::Template(template) => template.read(line, fields),
            Self::Json(json) => json.read(line, fields),
            Self::Csv(trace) => trace.read(line, fields),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Format, FormatChoice};
    use crate::logs::fields::{Field, Fields};

    const LINES: [&str; 4] = [
        r#"1.2.3.4 - alice [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 512 "-" "curl/8""#,
        r#"{"time":"2015-05-17T10:05:03Z","ip":"1.2.3.4","path":"/a","user":"alice"}"#,
        r#"1431857103000000,"k,""1""",3,1.2.3.4,alice,/a"#,
        r#"1.2.3.4 alice "/a" 1431857103.000"#,
    ];
    const HEAD: &[u8] = b"time_us,key,cost,ip,user,path\n";
    const TEMPLATE: &str = r#"$remote_addr $remote_user "$request" $msec"#;

    /// Returns the formats of those lines, in the same order.
    fn choices() -> [FormatChoice; 4] {
        let template = FormatChoice::Template(TEMPLATE.to_owned());
        [FormatChoice::AccessLog, FormatChoice::Json { time: None }, FormatChoice::Csv, template]
    }

    proptest! {
        /// Any bytes are parsed or rejected without a panic.
        #[test]
        fn any_line_is_parsed_or_rejected(
            line in prop_oneof![Just(LINES[0]), Just(LINES[1]), Just(LINES[2]), Just(LINES[3])],
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 0..6),
            cut in any::<prop::sample::Index>(),
            is_cut in any::<bool>(),
        ) {
            let mut bytes = line.as_bytes().to_vec();
            for (at, byte, what) in changes {
                let at = at.index(bytes.len());
                match what {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    _ => drop(bytes.splice(at..at, b"\" \\[]".iter().copied())),
                }
            }
            bytes.truncate(if is_cut { cut.index(bytes.len()) } else { bytes.len() });
            let wanted = [Field::Ip, Field::User, Field::Path];
            for choice in choices() {
                let (mut format, _) = Format::new(&choice, HEAD, &wanted, "a log").expect("a format with all fields");
                let mut fields = Fields::new(wanted.len());
                if format.read(&bytes, &mut fields).is_ok() {
                    for number in 0..wanted.len() {
                        prop_assert!(fields.get(number, &bytes).is_none_or(|text| text.len() <= bytes.len()));
                    }
                }
            }
        }
    }

    #[test]
    fn each_line_is_parsed_only_by_its_own_format() {
        let wanted = [Field::Ip, Field::User, Field::Path];
        for (i, choice) in choices().iter().enumerate() {
            for (j, line) in LINES.iter().enumerate() {
                let (mut format, _) = Format::new(choice, HEAD, &wanted, "a log").expect("a format with all fields");
                let mut fields = Fields::new(wanted.len());
                let read = format.read(line.as_bytes(), &mut fields);
                assert_eq!(read.ok(), (i == j).then_some(1_431_857_103_000_000), "{choice:?}: {line}");
                if i == j {
                    let found = [0, 1, 2].map(|number| fields.get(number, line.as_bytes()));
                    assert_eq!(found, [Some(&b"1.2.3.4"[..]), Some(b"alice"), Some(b"/a")], "{choice:?}");
                }
            }
        }
    }
}
