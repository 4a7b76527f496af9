//! What can be said to `tidegate override`.

use clap::{ArgGroup, Args, Subcommand};

use super::WhereArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum OverrideCommand {
    /// Put other limits, a ban or an exemption of a key in force, in place of an older one.
    Set(SetArguments),
    /// Lift it: the policy's own limits hold again.
    Lift(OverriddenArguments),
    /// Tell which are in force.
    List(ListArguments),
}

/// Whose override.
#[derive(Debug, Args)]
pub(crate) struct OverriddenArguments {
    /// Whom it is for; several are one key made of a list.
    #[arg(required = true, value_name = "KEY")]
    pub(crate) key: Vec<String>,
    /// The policy whose limits it takes the place of.
    #[arg(long, short, value_name = "NAME")]
    pub(crate) policy: String,
    #[command(flatten)]
    pub(crate) place: WhereArguments,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true), group = ArgGroup::new("end").required(true))]
pub(crate) struct SetArguments {
    #[command(flatten)]
    pub(crate) whose: OverriddenArguments,
    /// Other limits, such as 100/1m.
    #[arg(long, short, value_name = "LIMIT", group = "what")]
    pub(crate) limit: Vec<String>,
    /// How units are counted under --limit; unsaid, as the policy does.
    #[arg(long, value_name = "NAME", requires = "limit", conflicts_with_all = ["ban", "exempt"])]
    pub(crate) algorithm: Option<String>,
    /// Nothing fits.
    #[arg(long, group = "what")]
    pub(crate) ban: bool,
    /// Everything fits, and nothing is counted.
    #[arg(long, group = "what")]
    pub(crate) exempt: bool,
    /// For how long from now, such as 2h.
    #[arg(long, value_name = "SPAN", group = "end")]
    pub(crate) r#for: Option<String>,
    /// Or until when, such as 2026-12-01T08:00:00Z.
    #[arg(long, value_name = "TIME", group = "end", value_parser = milliseconds)]
    pub(crate) until: Option<u64>,
    /// Or until it is lifted.
    #[arg(long, group = "end")]
    pub(crate) for_good: bool,
    /// Why, for those who find it.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Only those of this policy.
    #[arg(long, short, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) place: WhereArguments,
}

/// Reads a time as milliseconds since the epoch; what was before is as much in the past as the epoch is.
fn milliseconds(text: &str) -> Result<u64, String> {
    let time: jiff::Timestamp =
        text.parse().map_err(|_| "not a time with its zone: write it as 2026-12-01T08:00:00Z".to_owned())?;
    Ok(u64::try_from(time.as_millisecond()).unwrap_or(0))
}
