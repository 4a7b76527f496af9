//! The arguments of `tidegate override`.

use clap::{ArgGroup, Args, Subcommand};

use super::TargetArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum OverrideCommand {
    /// Set other limits, a ban or an exemption for a key. It replaces an earlier override.
    Set(SetArguments),
    /// Remove an override: the limits of the policy apply again.
    #[command(name = "lift")]
    Remove(OverrideKeyArguments),
    /// List the active overrides.
    List(ListArguments),
}

/// The key of an override.
#[derive(Debug, Args)]
pub(crate) struct OverrideKeyArguments {
    /// The key; several values are one key that is a list.
    #[arg(required = true, value_name = "KEY")]
    pub(crate) key: Vec<String>,
    /// The policy.
    #[arg(long, short, value_name = "NAME")]
    pub(crate) policy: String,
    #[command(flatten)]
    pub(crate) target: TargetArguments,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true), group = ArgGroup::new("end").required(true))]
pub(crate) struct SetArguments {
    #[command(flatten)]
    pub(crate) key: OverrideKeyArguments,
    /// Other limits, such as 100/1m.
    #[arg(long, short, value_name = "LIMIT", group = "what")]
    pub(crate) limit: Vec<String>,
    /// Algorithm for --limit; by default that of the policy.
    #[arg(long, value_name = "NAME", requires = "limit", conflicts_with_all = ["ban", "exempt"])]
    pub(crate) algorithm: Option<String>,
    /// Deny all requests of the key.
    #[arg(long, group = "what")]
    pub(crate) ban: bool,
    /// Allow all requests of the key, and count nothing.
    #[arg(long, group = "what")]
    pub(crate) exempt: bool,
    /// Duration from now on, such as 2h.
    #[arg(long, value_name = "SPAN", group = "end")]
    pub(crate) r#for: Option<String>,
    /// End, such as 2026-12-01T08:00:00Z.
    #[arg(long, value_name = "TIME", group = "end", value_parser = milliseconds)]
    pub(crate) until: Option<u64>,
    /// Permanently, until it is removed.
    #[arg(long, group = "end")]
    pub(crate) permanent: bool,
    /// Reason, shown with the override.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Only those of this policy.
    #[arg(long, short, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) target: TargetArguments,
}

/// Parses a time as milliseconds since the epoch. A time before the epoch counts as the epoch.
fn milliseconds(text: &str) -> Result<u64, String> {
    let time: jiff::Timestamp =
        text.parse().map_err(|_| "not a time with a zone: write it as 2026-12-01T08:00:00Z".to_owned())?;
    Ok(u64::try_from(time.as_millisecond()).unwrap_or(0))
}
