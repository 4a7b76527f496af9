//! [`Format`]: how a log's lines are laid out. Each kind finds the wanted fields of a line, and its time.

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

/// How lines are laid out, as far as that is said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FormatChoice {
    /// As the first lines look.
    #[default]
    Auto,
    /// Common or combined, as nginx and Apache write them.
    AccessLog,
    /// An nginx `log_format`.
    Template(String),
    /// One JSON object a line.
    Json {
        /// The field that has the time, where it is not found by itself.
        time: Option<String>,
    },
    /// A trace: `time_us,key,cost`.
    Csv,
}

/// What is wrong with a line.
pub(super) type Flaw = &'static str;

/// A layout that knows which fields are wanted.
#[derive(Debug)]
pub(super) enum Format {
    AccessLog(AccessLog),
    Template(Template),
    Json(JsonLines),
    Csv(CsvTrace),
}

impl Default for Format {
    /// The format of an input that has no lines.
    fn default() -> Self {
        Self::AccessLog(AccessLog::default())
    }
}

/// How the first lines look.
enum Looks {
    AccessLog,
    Json,
    Csv,
}

impl Format {
    /// The format of an input that begins with `beginning`, to find the `wanted` fields with. Also how many bytes of it are a head
    /// and no lines.
    pub(super) fn new(
        choice: &FormatChoice,
        beginning: &[u8],
        wanted: &[Field],
        name: &str,
    ) -> Result<(Self, usize), LogError> {
        // Some editors put a mark before the text.
        let mark = if beginning.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let beginning = &beginning[mark..];
        let no_field = |format: &'static str, field: &Field, known: String| LogError::NoField {
            name: name.to_owned(),
            format,
            field: field.shown(),
            known,
        };
        let looks = match choice {
            FormatChoice::Template(text) => {
                let template = Template::new(text, wanted).map_err(|why| LogError::Template { why })?;
                return Ok((Self::Template(template), mark));
            }
            FormatChoice::AccessLog => Looks::AccessLog,
            FormatChoice::Json { .. } => Looks::Json,
            FormatChoice::Csv => Looks::Csv,
            FormatChoice::Auto => looks(beginning),
        };
        Ok(match looks {
            Looks::AccessLog => {
                let log = AccessLog::new(wanted).map_err(|field| {
                    let known = "it has ip, user, path, header:referer, header:user-agent, field:status, field:bytes";
                    no_field("an access log", field, known.to_owned())
                });
                (Self::AccessLog(log?), mark)
            }
            Looks::Json => {
                let time = match choice {
                    FormatChoice::Json { time } => time.as_deref(),
                    _ => None,
                };
                let json = JsonLines::new(wanted, time)
                    .map_err(|field| no_field("a JSON log", field, "name its field, as in field:api_key".to_owned()));
                (Self::Json(json?), mark)
            }
            Looks::Csv => {
                let (trace, head) = CsvTrace::new(beginning, wanted).map_err(|(field, columns)| {
                    let known = if columns.is_empty() {
                        "its first line has to name its columns, as in time_us,key,cost".to_owned()
                    } else {
                        format!("its columns are {}", columns.join(", "))
                    };
                    no_field("a trace", &field, known)
                })?;
                (Self::Csv(trace), mark + head)
            }
        })
    }

    /// Finds the wanted fields of a line; its time in microseconds since the epoch.
    #[inline]
    pub(super) fn read(&mut self, line: &[u8], fields: &mut Fields) -> Result<u64, Flaw> {
        match self {
            Self::AccessLog(log) => log.read(line, fields),
            Self::Template(template) => template.read(line, fields),
            Self::Json(json) => json.read(line, fields),
            Self::Csv(trace) => trace.read(line, fields),
        }
    }

    /// Whether lines bring keys and costs of their own.
    pub(super) fn is_trace(choice: &FormatChoice, beginning: &[u8]) -> bool {
        match choice {
            FormatChoice::Csv => true,
            FormatChoice::Auto => matches!(looks(beginning), Looks::Csv),
            _ => false,
        }
    }
}

fn looks(beginning: &[u8]) -> Looks {
    let text = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    if csv_trace::is_head(first) {
        return Looks::Csv;
    }
    // One odd line at the top doesn't make another format of a log.
    let json = std::iter::once(first).chain(lines).take(20).filter(|line| line.starts_with(b"{")).count();
    let all =
        text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()).take(20).count();
    if json * 2 > all { Looks::Json } else { Looks::AccessLog }
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

    /// The formats of those lines, in their order.
    fn choices() -> [FormatChoice; 4] {
        let template = FormatChoice::Template(TEMPLATE.to_owned());
        [FormatChoice::AccessLog, FormatChoice::Json { time: None }, FormatChoice::Csv, template]
    }

    proptest! {
        /// Whatever a line is, it is read or refused.
        #[test]
        fn no_line_is_too_odd(
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
                let (mut format, _) = Format::new(&choice, HEAD, &wanted, "a log").expect("it has them all");
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
    fn each_line_is_read_by_its_own_format_and_by_no_other() {
        let wanted = [Field::Ip, Field::User, Field::Path];
        for (i, choice) in choices().iter().enumerate() {
            for (j, line) in LINES.iter().enumerate() {
                let (mut format, _) = Format::new(choice, HEAD, &wanted, "a log").expect("it has them all");
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
