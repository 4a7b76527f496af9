//! What can be said to `tidegate replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Which log, and how to read it.
#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// Access logs (nginx or Apache, common or combined), JSON lines or traces (`time_us,key,cost`), plain or compressed by gzip or zstd;
    /// `-` for standard input. Several are merged by time.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Who is one client: ip, user, path, path:2 (so many segments), header:x-api-key, field:tenant or tenant, regex:… (its first group),
    /// or several, as in ip+path:1. Unsaid: ip, or the key of a trace.
    #[arg(long, value_name = "FIELD")]
    pub(crate) by: Vec<String>,
    /// Count IPv6 addresses by so many bits.
    #[arg(long, value_name = "BITS", default_value_t = 64)]
    pub(crate) ipv6_prefix: u8,
    /// What a request costs: a number, field:bytes, /search=10 (may be repeated; the longest prefix wins) or table:FILE with a path and its
    /// cost on each line. Unsaid: 1, or what the trace says.
    #[arg(long, value_name = "COST")]
    pub(crate) cost: Vec<String>,
    /// How lines are laid out.
    #[arg(long, value_enum, default_value_t = LogFormat::Auto, value_name = "FORMAT")]
    pub(crate) input: LogFormat,
    /// Or an nginx `log_format`: its text, such as `$remote_addr [$time_iso8601] "$request"`, or as the configuration has it.
    #[arg(long, value_name = "LOG_FORMAT", conflicts_with = "input")]
    pub(crate) log_format: Option<String>,
    /// The field of JSON lines that has the time.
    #[arg(long, value_name = "NAME")]
    pub(crate) time_field: Option<String>,
    /// Put requests in their places that are logged late by up to so long, such as 10s; unsaid, they are decided in the log's order.
    #[arg(long, value_name = "SPAN")]
    pub(crate) sort: Option<String>,
    /// Spread requests that are known to the second within their second, at random.
    #[arg(long)]
    pub(crate) spread: bool,
    /// What the random numbers come from: the same ones for the same seed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
}

/// How lines are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// As the first lines look.
    Auto,
    /// nginx and Apache.
    Common,
    /// nginx and Apache.
    Combined,
    /// One object a line.
    Json,
    /// `time_us,key,cost`
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    #[command(flatten)]
    pub(crate) log: LogArguments,
    /// A limit to try, such as 60/1m; several are one policy, decided as one. Without any, only what clients ask for is told.
    #[arg(long, short, value_name = "LIMIT")]
    pub(crate) limit: Vec<String>,
    /// How units are counted, where nothing else is said.
    #[arg(long, value_name = "NAME", default_value = "sliding_log")]
    pub(crate) algorithm: String,
    /// Another policy to try beside it: limits with commas between, then the algorithm, as in `100/1m,1000/1h sliding_counter`.
    #[arg(long, value_name = "POLICY")]
    pub(crate) candidate: Vec<String>,
    /// Try a policy of the configuration; more than one are tried side by side.
    #[arg(long, short, value_name = "NAME", conflicts_with = "limit")]
    pub(crate) policy: Vec<String>,
    /// The configuration that has them; `tidegate.toml` here if there is one.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Draw the curve of limits for this window, too; 1m if there is no limit.
    #[arg(long, value_name = "WINDOW")]
    pub(crate) window: Vec<String>,
    /// How many of the clients hit hardest to show.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
    /// Decide in this Redis, under keys of its own that are forgotten afterwards; in memory if unsaid.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Write every decision of the policy asked about: `time_us,key,cost,reason,remaining,retry_after_us,reset_after_us`.
    #[arg(long, value_name = "OUT.csv")]
    pub(crate) decisions: Option<PathBuf>,
    /// Write a page with plots, which needs nothing else to be looked at.
    #[arg(long, value_name = "OUT.html")]
    pub(crate) report: Option<PathBuf>,
}
