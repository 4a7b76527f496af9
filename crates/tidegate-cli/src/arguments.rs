//! What can be said on the command line.

mod overrides;
mod replay;
mod simulate;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
pub(crate) use overrides::{ListArguments, OverriddenArguments, OverrideCommand, SetArguments};
pub(crate) use replay::{LogArguments, LogFormat, ReplayArguments};
pub(crate) use simulate::{
    AccuracyArguments, BoundaryArguments, CompareArguments, SimulateCommand, SimulatedArguments, TrafficArguments,
    TrafficFormat, TrialArguments,
};

/// Sliding-window rate limits, exact.
#[derive(Debug, Parser)]
#[command(version, about, long_about = None, propagate_version = true, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// How to print.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// For people or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer over HTTP, RESP (any Redis client) and gRPC (Envoy).
    Serve(ServeArguments),
    /// Spend if it fits. Exit code: 0 allowed, 1 limited, 2 usage or configuration, 3 impossible, 4 store failed, 5
    /// banned.
    Check(AskArguments),
    /// Answer as check would; spend nothing.
    Peek(AskArguments),
    /// Spend regardless.
    Charge(AskArguments),
    /// Give back to the moment of the charge.
    Refund(RefundArguments),
    /// Forget a key.
    Reset(SubjectArguments),
    /// Show the state of a key.
    Inspect(SubjectArguments),
    /// Ban a key, exempt it, or give it other limits than its policy's: for a while or for good.
    #[command(subcommand)]
    Override(OverrideCommand),
    /// Watch a service: decisions, policies and whom they hit, each second.
    Top(TopArguments),
    /// Tell what a limit would have done to the requests of an access log, and which limit would have hurt nobody.
    Replay(ReplayArguments),
    /// Try limits on traffic that is made up.
    #[command(subcommand)]
    Simulate(SimulateCommand),
    /// Check a configuration, or make one from another's.
    #[command(subcommand)]
    Config(ConfigCommand),
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The configuration; `tidegate.toml` here if there is one.
    #[arg(long, short, env = "TIDEGATE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where to listen for HTTP, or `off`.
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// Where to listen for RESP, or `off`.
    #[arg(long, value_name = "ADDR")]
    pub(crate) resp: Option<String>,
    /// Where to listen for gRPC, or `off`.
    #[arg(long, value_name = "ADDR")]
    pub(crate) grpc: Option<String>,
    /// Where the state lives: `memory`, `redis://…`, `rediss://…`, `redis-cluster://…`, `redis-sentinel://…`.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

/// Whom to ask.
#[derive(Debug, Args)]
pub(crate) struct WhereArguments {
    /// The service to ask.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", env = "TIDEGATE_SERVER")]
    pub(crate) server: String,
    /// Or the Redis itself: `redis://…`.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// With --store: the configuration that knows the policies; `tidegate.toml` here if there is one.
    #[arg(long, short, value_name = "FILE", requires = "store")]
    pub(crate) config: Option<PathBuf>,
    /// A token of the service.
    #[arg(long, env = "TIDEGATE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

/// Who is counted, and by what.
#[derive(Debug, Args)]
pub(crate) struct SubjectArguments {
    /// Who is counted; several are one key made of a list.
    #[arg(required = true, value_name = "KEY")]
    pub(crate) key: Vec<String>,
    /// By a policy of the configuration.
    #[arg(long, short, required_unless_present = "limit", conflicts_with = "limit", value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Or by these limits, such as 60/1m.
    #[arg(long, short, value_name = "LIMIT")]
    pub(crate) limit: Vec<String>,
    /// How units are counted under --limit.
    #[arg(long, requires = "limit", value_name = "NAME")]
    pub(crate) algorithm: Option<String>,
    #[command(flatten)]
    pub(crate) place: WhereArguments,
}

#[derive(Debug, Args)]
pub(crate) struct AskArguments {
    #[command(flatten)]
    pub(crate) subject: SubjectArguments,
    /// Units to spend; 1 if unsaid.
    #[arg(long, value_name = "N", conflicts_with = "operation")]
    pub(crate) cost: Option<u64>,
    /// Or what the policy says this costs.
    #[arg(long, requires = "policy", value_name = "NAME")]
    pub(crate) operation: Option<String>,
    /// What to answer if the store fails: open, closed, local, local:0.25.
    #[arg(long, value_name = "CHOICE")]
    pub(crate) on_store_failure: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RefundArguments {
    #[command(flatten)]
    pub(crate) subject: SubjectArguments,
    /// Units to give back; 1 if unsaid.
    #[arg(long, value_name = "N")]
    pub(crate) cost: Option<u64>,
    /// When they were charged, as the decision told it.
    #[arg(long, value_name = "MICROSECONDS")]
    pub(crate) charged_at_us: u64,
}

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// The service to watch.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", env = "TIDEGATE_SERVER")]
    pub(crate) server: String,
    /// A token of the service.
    #[arg(long, env = "TIDEGATE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Print how it is now and end, as without a terminal and with --format json.
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say what a configuration comes to, or what is wrong with it.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Turn the YAML of Envoy's rate limit service (envoyproxy/ratelimit) into a configuration of ours.
    ImportEnvoy {
        /// The file, or `-` for standard input.
        file: PathBuf,
    },
}
