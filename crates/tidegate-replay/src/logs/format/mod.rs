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
