//! The arguments of `tidegate reserve`, `commit`, `release`, `renew` and `run`.

use std::{ffi::OsString, time::Duration};

use clap::{ArgGroup, Args, ValueEnum};

use super::{CheckArguments, TargetArguments, duration};

/// What happens to the units of a hold at its end, if nobody commits or releases it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HoldEnd {
    Released,
    Spent,
}

#[derive(Debug, Args)]
pub(crate) struct ReserveArguments {
    #[command(flatten)]
    pub(crate) check: CheckArguments,
    /// Time after which the hold ends by itself, such as 30s or 10m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Duration,
    /// What happens to the units at the end, if nobody commits or releases the hold.
    #[arg(long, value_enum, default_value_t = HoldEnd::Released)]
    pub(crate) expires: HoldEnd,
    /// Print only the id to standard output, and the decision to standard error, for scripts.
    #[arg(long)]
    pub(crate) id: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CommitArguments {
    /// The id that reserve printed.
    pub(crate) reservation: String,
    /// Units that were spent: one number for all requests of the hold, or one for each.
    #[arg(required = true, value_name = "ACTUAL")]
    pub(crate) actual: Vec<u64>,
    #[command(flatten)]
    pub(crate) target: TargetArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseArguments {
    /// The id that reserve printed.
    pub(crate) reservation: String,
    #[command(flatten)]
    pub(crate) target: TargetArguments,
}

#[derive(Debug, Args)]
pub(crate) struct RenewArguments {
    /// The id that reserve printed.
    pub(crate) reservation: String,
    /// Time from now until the hold ends by itself.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) target: TargetArguments,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("limits").required(true))]
pub(crate) struct RunArguments {
    /// Policy of the configuration, usually with a limit such as 4/inflight.
    #[arg(long, short, group = "limits", value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Limits instead of a policy, such as 4/inflight.
    #[arg(long, short, group = "limits", value_name = "LIMIT")]
    pub(crate) limit: Vec<String>,
    /// The key; several are one key that is a list.
    #[arg(long, short, required = true, value_name = "KEY")]
    pub(crate) key: Vec<String>,
    /// Units to hold; 1 by default.
    #[arg(long, value_name = "N")]
    pub(crate) cost: Option<u64>,
    /// Time after which the hold ends if this process is killed. It is renewed every third of it.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) ttl: Duration,
    /// How long to wait for a place. Without it, a denial ends the command at once.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// Count the run under limits with a window: at the end, the units stay spent instead of being given back.
    #[arg(long)]
    pub(crate) spend: bool,
    /// Choice if the store fails: open, closed, local, local:0.25.
    #[arg(long, value_name = "CHOICE")]
    pub(crate) on_store_failure: Option<String>,
    #[command(flatten)]
    pub(crate) target: TargetArguments,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
