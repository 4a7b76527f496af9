//! Arguments of `tidegate replay`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use tidegate::{Algorithm, Limit, parse_duration};
use tidegate_replay::logs::{ClientKey, DurationSource, Filter};

/// The input, and how to read it.
#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// Access logs (nginx or Apache, common or combined), JSON lines or traces (`time_us,key,cost`), plain or compressed with gzip, xz or
    /// zstd; `-` for standard input. Several files are merged by time.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Key that identifies a client: ip, user, agent, path, path:2 (the first two segments), header:x-api-key, field:tenant or tenant,
    /// regex:… (its first group), or several, as in client,path. Default: client, which is ip in a log and key in a trace.
    #[arg(long, value_name = "FIELD")]
    pub(crate) by: Vec<ClientKey>,
    /// Read only lines that match: path=/api/ (a prefix), status=304, status=5xx, FIELD=VALUE, agent~bot (a regular expression), or
    /// line~REGEX for the whole line. Filters of one field are alternatives. Lines must match all fields.
    #[arg(long, value_name = "FILTER")]
    pub(crate) only: Vec<Filter>,
    /// Skip lines that match, such as status=304 or 'agent~(?i)bot'. The syntax is that of --only.
    #[arg(long, value_name = "FILTER")]
    pub(crate) skip: Vec<Filter>,
    /// Prefix length by which IPv6 addresses are counted.
    #[arg(long, value_name = "BITS", default_value_t = 64)]
    pub(crate) ipv6_prefix: u8,
    /// Cost of a request: a number, field:bytes, /search=10 (can be repeated; the longest prefix decides) or table:FILE with a path and its
    /// cost on each line. Default: 1, or the cost in a trace.
    #[arg(long, value_name = "COST")]
    pub(crate) cost: Vec<String>,
    /// Duration of a request, for limits such as 4/inflight: a field and its unit, such as latency:ms, or last:s for the last word of an
    /// access log. Default: `request_time`, `duration` and other common names, or the last word: seconds if it has a decimal point
    /// (`$request_time` of nginx), else microseconds (`%D` of Apache).
    #[arg(long, value_name = "FIELD")]
    pub(crate) duration: Option<DurationSource>,
    /// Whether the time of a line is the start or the end of its request. Default: end; start for `%D` of Apache, for traces, and for JSON
    /// lines with `start_time` or `StartUTC`.
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) time_of: Option<TimeOf>,
    /// Format of the lines.
    #[arg(long, value_enum, default_value_t = LogFormat::Auto, value_name = "FORMAT")]
    pub(crate) input: LogFormat,
    /// Custom format: the text of an nginx `log_format`, such as `$remote_addr [$time_iso8601] "$request"`, or the whole directive.
    #[arg(long, value_name = "LOG_FORMAT", conflicts_with = "input")]
    pub(crate) log_format: Option<String>,
    /// Field of JSON lines that holds the time.
    #[arg(long, value_name = "NAME")]
    pub(crate) time_field: Option<String>,
    /// Sort lines that are late by up to this duration, such as 10s, or `off`. Default: 5m, and `off` for traces.
    #[arg(long, value_name = "SPAN", value_parser = sort_span)]
    pub(crate) sort: Option<Duration>,
    /// Spread requests at random within their second if the times are whole seconds.
    #[arg(long)]
    pub(crate) spread: bool,
    /// Seed of the random numbers. The same seed gives the same numbers.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
}

/// What the time of a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeOf {
    /// The start of the request.
    Start,
    /// The end of the request.
    End,
}

/// Format of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Detected from the first lines.
    Auto,
    /// The common format of nginx and Apache.
    Common,
    /// The combined format of nginx and Apache.
    Combined,
    /// One object per line.
    Json,
    /// `time_us,key,cost`
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    #[command(flatten)]
    pub(crate) log: LogArguments,
    /// Limit to try, such as 60/1m. Several limits form one policy. Without a limit, the report shows only the demand of the clients.
    #[arg(long, short, value_name = "LIMIT")]
    pub(crate) limit: Vec<Limit>,
    /// Default algorithm.
    #[arg(long, value_name = "NAME", default_value = "sliding_log")]
    pub(crate) algorithm: Algorithm,
    /// Another policy to try: limits separated by commas, then the algorithm, as in `100/1m,1000/1h sliding_counter`.
    #[arg(long, value_name = "POLICY")]
    pub(crate) candidate: Vec<String>,
    /// Policy of the configuration to try. Several policies are tried side by side.
    #[arg(long, short, value_name = "NAME", conflicts_with = "limit")]
    pub(crate) policy: Vec<String>,
    /// Configuration of the policies. Default: `tidegate.toml` in this folder, if it exists.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Window of a further curve of limits. Default without a limit: 1m.
    #[arg(long, value_name = "WINDOW", value_parser = window)]
    pub(crate) window: Vec<Duration>,
    /// Number of clients with the most denials to show, and of groups.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
    /// Suggest limits for each group of requests with the same value of this field, such as tier, path:1 or regex:… (see --by).
    #[arg(long, value_name = "FIELD")]
    pub(crate) by_group: Option<ClientKey>,
    /// Show how long clients wait if they obey: a denied client waits for its Retry-After, then sends the request again.
    #[arg(long, conflicts_with = "store")]
    pub(crate) obey: bool,
    /// Redis that decides, under temporary keys that are deleted afterwards. Default: decide in memory.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// PEM file with certificates of CAs to trust for rediss://, in addition to those of the system.
    #[arg(long, env = "TIDEGATE_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Write every decision of the first policy: `time_us,key,cost,reason,remaining,retry_after_us,reset_after_us`.
    #[arg(long, value_name = "OUT.csv")]
    pub(crate) decisions: Option<PathBuf>,
    /// Write a self-contained HTML page with plots.
    #[arg(long, value_name = "OUT.html")]
    pub(crate) report: Option<PathBuf>,
}

/// Parses a duration.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("`{text}` is not a duration: write 10s, 1m or 1h30m"))
}

/// Parses the largest delay of a line that is sorted.
fn sort_span(text: &str) -> Result<Duration, String> {
    if text == "off" {
        return Ok(Duration::ZERO);
    }
    duration(text).map_err(|_| format!("`{text}` is not a duration: write 10s, 1m or 1h30m, or `off`"))
}

/// Parses the window of a limit.
fn window(text: &str) -> Result<Duration, String> {
    Ok(Limit::new(1, duration(text)?).map_err(|error| error.to_string())?.window())
}
