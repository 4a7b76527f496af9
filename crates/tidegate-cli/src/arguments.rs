//! The arguments of the command line.

mod overrides;
mod replay;
mod reservations;
mod simulate;

use std::{path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
pub(crate) use overrides::{ListArguments, OverrideCommand, OverrideKeyArguments, SetArguments};
pub(crate) use replay::{LogArguments, LogFormat, ReplayArguments, TimeOf};
pub(crate) use reservations::{
    CommitArguments, HoldEnd, ReleaseArguments, RenewArguments, ReserveArguments, RunArguments,
};
pub(crate) use simulate::{
    AccuracyArguments, CompareArguments, LeaseArguments, LimitArguments, SimulateCommand, SimulatedArguments,
    TrafficArguments, TrafficFormat, TrialArguments,
};

/// Shown below the help of the command.
const EXIT_CODES: &str = "Exit codes: 0 done or allowed, 1 limited, 2 wrong arguments or configuration, 3 impossible (the \
cost is higher than the limit ever allows), 4 the store or the service does not answer, 5 banned. `tidegate run` exits \
with the code of its command.";

/// Exact sliding-window rate limits, as a service and as commands.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, about, long_about = None, propagate_version = true, disable_help_subcommand = true, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Output format.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// The output format: for people or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the service over HTTP, RESP (any Redis client) and gRPC (Envoy).
    Serve(ServeArguments),
    /// Spend the cost if it fits. Exit code: 0 allowed, 1 limited, 2 wrong arguments or configuration, 3 impossible, 4
    /// the store or the service does not answer, 5 banned.
    Check(CheckArguments),
    /// Print the decision that check would make, and spend nothing.
    Peek(CheckArguments),
    /// Spend the cost even beyond the limit.
    Charge(CheckArguments),
    /// Hold units until their actual cost is known: spend the cost if it fits, and print an id for commit and release.
    Reserve(ReserveArguments),
    /// Close a hold with the actual cost. Exit code 1 if the hold is not open.
    Commit(CommitArguments),
    /// Close a hold and give all of its units back. Exit code 1 if the hold is not open.
    Release(ReleaseArguments),
    /// Set the end of a hold to a time from now. Exit code 1 if the hold is not open.
    Renew(RenewArguments),
    /// Run a command while holding a unit, to limit how many run at once. Exit code: that of the command, or 128 and the
    /// number of the signal that ended it; 1 limited, as for check; 126 or 127 if the command can't be started.
    Run(RunArguments),
    /// Refund units to the moment of their charge.
    Refund(RefundArguments),
    /// Reset a key.
    Reset(SubjectArguments),
    /// Show the state of a key.
    Inspect(SubjectArguments),
    /// Ban a key, exempt it, or give it other limits: for a time or permanently.
    #[command(subcommand)]
    Override(OverrideCommand),
    /// Watch a service: decisions, policies and the keys that they deny, each second.
    Top(TopArguments),
    /// Show what a limit would have done to the requests of an access log, and which limit would have denied none.
    Replay(ReplayArguments),
    /// Try limits on generated traffic.
    #[command(subcommand)]
    Simulate(SimulateCommand),
    /// Write an example of a configuration, check one, or convert one of Envoy's rate limit service.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page of tidegate, or write the pages of all commands.
    Man {
        /// Directory for one page for each command, such as tidegate-check.1. It is created if it does not exist.
        directory: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Configuration file; by default `tidegate.toml` in this directory if it exists.
    #[arg(long, short, env = "TIDEGATE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address for HTTP, or `off`.
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// Address for RESP, or `off`.
    #[arg(long, value_name = "ADDR")]
    pub(crate) resp: Option<String>,
    /// Address for gRPC, or `off`.
    #[arg(long, value_name = "ADDR")]
    pub(crate) grpc: Option<String>,
    /// Store: `memory`, `redis://…`, `rediss://…`, `redis-cluster://…`, `redis-sentinel://…`, `tidegate://…`.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

/// A service and the token for it.
#[derive(Debug, Args)]
pub(crate) struct ServiceArguments {
    /// URL of the service.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", env = "TIDEGATE_SERVER")]
    pub(crate) server: String,
    /// Token of the service.
    #[arg(long, env = "TIDEGATE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// PEM file with certificates of CAs to trust for https:// and rediss://, in addition to those of the system.
    #[arg(long, env = "TIDEGATE_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// How long to wait for the response, such as 500ms or 10s.
    #[arg(long, env = "TIDEGATE_TIMEOUT", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) timeout: Duration,
}

/// Parses a duration above zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration = tidegate::parse_duration(text).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "write a duration above zero, such as 500ms or 10s".to_owned())
}

/// The service or the store that receives a request.
#[derive(Debug, Args)]
pub(crate) struct TargetArguments {
    #[command(flatten)]
    pub(crate) service: ServiceArguments,
    /// URL of a Redis to use directly, without a service: `redis://…`.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// With --store: the configuration file with the policies; by default `tidegate.toml` in this directory if it exists.
    #[arg(long, short, value_name = "FILE", requires = "store")]
    pub(crate) config: Option<PathBuf>,
}

/// A key and its limits.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("limits").required(true))]
pub(crate) struct SubjectArguments {
    /// The key; several values are one key that is a list.
    #[arg(required = true, value_name = "KEY")]
    pub(crate) key: Vec<String>,
    /// Policy of the configuration.
    #[arg(long, short, group = "limits", value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Limits instead of a policy, such as 60/1m.
    #[arg(long, short, group = "limits", value_name = "LIMIT")]
    pub(crate) limit: Vec<String>,
    /// Algorithm for --limit.
    #[arg(long, requires = "limit", value_name = "NAME")]
    pub(crate) algorithm: Option<String>,
    #[command(flatten)]
    pub(crate) target: TargetArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) subject: SubjectArguments,
    /// Units to spend; 1 by default.
    #[arg(long, value_name = "N", conflicts_with = "operation")]
    pub(crate) cost: Option<u64>,
    /// Operation of the policy, instead of the cost.
    #[arg(long, requires = "policy", value_name = "NAME")]
    pub(crate) operation: Option<String>,
    /// Choice if the store fails: open, closed, local, local:0.25.
    #[arg(long, value_name = "CHOICE")]
    pub(crate) on_store_failure: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RefundArguments {
    #[command(flatten)]
    pub(crate) subject: SubjectArguments,
    /// Units to refund; 1 by default.
    #[arg(long, value_name = "N")]
    pub(crate) cost: Option<u64>,
    /// Time of the charge: `charged_at_us` of the decision.
    #[arg(long, value_name = "MICROSECONDS")]
    pub(crate) charged_at_us: u64,
}

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    pub(crate) service: ServiceArguments,
    /// Print the current state once and exit. This is the default without a terminal and with --format json.
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Write an example with a comment for every setting. An existing file is not changed.
    Init {
        /// The file, or `-` for standard output.
        #[arg(default_value = "tidegate.toml")]
        file: PathBuf,
    },
    /// Print the policies of a configuration, or its first error.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Convert the YAML of Envoy's rate limit service (envoyproxy/ratelimit) to a configuration of Tidegate.
    ImportEnvoy {
        /// The file, or `-` for standard input.
        file: PathBuf,
    },
}
