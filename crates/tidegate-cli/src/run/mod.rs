//! `tidegate run`: runs a command while holding units.
//!
//! - [`hold`]: the hold, which is renewed and released
//! - [`signals`]: signals that are passed on to the command

mod hold;
mod signals;

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus, sync::Arc};

use anyhow::Context as _;
use tokio::{
    process::{Child, Command},
    time::{Instant, MissedTickBehavior, interval_at, sleep},
};

use self::{
    hold::{Hold, Place},
    signals::Signals,
};
use crate::{
    arguments::{Format, RunArguments},
    client,
    outcome::Outcome,
    output::{print_error, print_error_line},
    times,
};

/// The longest time between two attempts to get a place: a place may become free before the first hold ends by itself.
const LONGEST_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

pub(crate) fn run(arguments: RunArguments, format: Format) -> anyhow::Result<Outcome> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("the runtime can't be started")?;
    let done = runtime.block_on(hold_and_run(Arc::new(arguments), format));
    // A request that hangs must not keep the process alive.
    runtime.shutdown_background();
    done
}

async fn hold_and_run(arguments: Arc<RunArguments>, format: Format) -> anyhow::Result<Outcome> {
    let mut hold = Hold::new(Arc::clone(&arguments))?;
    if let Err(outcome) = take_place(&mut hold, &arguments, format).await? {
        return Ok(outcome);
    }
    // Before the command starts, so that no signal ends this process without a release.
    let mut signals = Signals::listen()?;
    let outcome = match start(&arguments) {
        Ok(child) => run_to_end(child, &mut hold, &mut signals, &arguments).await,
        Err(outcome) => Ok(outcome),
    };
    hold.end().await;
    outcome
}

/// Takes a place. Waits for one if the arguments say so. Returns the outcome of a denial.
async fn take_place(hold: &mut Hold, arguments: &RunArguments, format: Format) -> anyhow::Result<Result<(), Outcome>> {
    let deadline = arguments.wait.map(|wait| Instant::now() + wait);
    loop {
        let denied = match hold.take().await? {
            Place::Taken => return Ok(Ok(())),
            Place::Denied(response) => response,
        };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match (left, denied.retry_after()) {
            (Some(left), Some(retry)) if !left.is_zero() => sleep(retry.min(LONGEST_PAUSE).min(left)).await,
            _ => {
                report(&denied, format);
                return Ok(Err(client::outcome_of(denied.status, &denied.body)));
            }
        }
    }
}

/// Reports a denial to standard error: standard output belongs to the command.
fn report(denied: &hold::Denial, format: Format) {
    match (format, denied.body["error"].as_str()) {
        (Format::Json, _) => print_error_line(&denied.body.to_string()),
        (Format::Text, Some(error)) => print_error(client::hinted(denied.body["field"].as_str(), error)),
        (Format::Text, None) => {
            let retry = denied.retry_after().and_then(|wait| u64::try_from(wait.as_millis()).ok());
            let hint = retry.map_or(String::new(), |wait| {
                format!("; a place is free in {} at the latest, unless holds are renewed", times::span(wait))
            });
            print_error(format_args!("{}{hint}", client::decision_text(&denied.body).trim_end()));
        }
    }
}

/// Starts the command. If it can't be started, returns the exit code that shells use.
fn start(arguments: &RunArguments) -> Result<Child, Outcome> {
    let [program, rest @ ..] = arguments.command.as_slice() else { return Err(Outcome::Usage) };
    Command::new(program).args(rest).spawn().map_err(|error| {
        print_error(format_args!("`{}` can't be started: {error}", program.display()));
        Outcome::OfCommand(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
    })
}

/// Renews the hold and passes signals on until the command has ended.
async fn run_to_end(
    mut child: Child,
    hold: &mut Hold,
    signals: &mut Signals,
    arguments: &RunArguments,
) -> anyhow::Result<Outcome> {
    let period = arguments.ttl / 3;
    let mut renewals = interval_at(Instant::now() + period, period);
    renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // The process is not waited for while a signal is sent, so its number still belongs to it.
        let process = child.id();
        tokio::select! {
            status = child.wait() => return Ok(outcome_of(status.context("the command can't be waited for")?)),
            signal = signals.next() => signals::send(process, signal),
            _ = renewals.tick() => hold.renew_in_background(),
            () = hold.renewed() => {}
        }
    }
}

/// The exit code of a command, or 128 and the number of the signal that ended it.
fn outcome_of(status: ExitStatus) -> Outcome {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Outcome::OfCommand(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
