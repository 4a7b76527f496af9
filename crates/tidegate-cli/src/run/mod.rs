//! `tidegate run`: runs a command while holding units.
//!
//! - [`hold`]: the hold, which is renewed and released
//! - [`signals`]: signals that are passed on to the command

mod hold;
mod signals;

use std::{os::unix::process::ExitStatusExt as _, pin::pin, process::ExitStatus, sync::Arc};

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
pub(super) const LONGEST_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

pub(crate) fn run(arguments: RunArguments, format: Format) -> anyhow::Result<Outcome> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("the runtime can't be started")?;
    let done = runtime.block_on(hold_and_run(Arc::new(arguments), format));
    // A request that hangs must not keep the process alive.
    runtime.shutdown_background();
    done
}

async fn hold_and_run(arguments: Arc<RunArguments>, format: Format) -> anyhow::Result<Outcome> {
    // Before the hold is taken, so that no signal ends this process without a release.
    let mut signals = Signals::listen()?;
    let mut hold = Hold::new(Arc::clone(&arguments))?;
    let outcome = match take_place(&mut hold, &mut signals, &arguments, format).await {
        Ok(Ok(())) => match start(&arguments) {
            Ok(child) => run_to_end(child, &mut hold, &mut signals, &arguments).await,
            Err(outcome) => Ok(outcome),
        },
        Ok(Err(outcome)) => Ok(outcome),
        Err(error) => Err(error),
    };
    tokio::select! {
        () = hold.end() => outcome,
        signal = signals.second() => {
            print_error("the hold is not released, and ends by itself");
            Ok(ended_by(signal))
        }
    }
}

/// Takes a place. Waits for one if the arguments say so. Returns the outcome of a denial or of a signal.
async fn take_place(
    hold: &mut Hold,
    signals: &mut Signals,
    arguments: &RunArguments,
    format: Format,
) -> anyhow::Result<Result<(), Outcome>> {
    let deadline = arguments.wait.map(|wait| Instant::now() + wait);
    loop {
        let mut taking = pin!(hold.take());
        let place = tokio::select! {
            place = &mut taking => place?,
            signal = signals.first() => {
                // The answer has the id of the hold that is released.
                tokio::select! {
                    place = taking => drop(place?),
                    _ = signals.second() => {}
                }
                return Ok(Err(ended_by(signal)));
            }
        };
        let denied = match place {
            Place::Taken => return Ok(Ok(())),
            Place::Denied(response) => response,
        };
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let (Some(left), Some(retry)) = (left.filter(|left| !left.is_zero()), denied.retry_after()) else {
            report(&denied, format);
            if denied.may_be_spent && arguments.wait.is_some() {
                print_error(
                    "this run may be counted already, so it does not ask again: look at the units in use first",
                );
            }
            return Ok(Err(client::outcome_of(denied.status, &denied.body)));
        };
        tokio::select! {
            () = sleep(retry.min(LONGEST_PAUSE).min(left)) => {}
            signal = signals.first() => return Ok(Err(ended_by(signal))),
        }
    }
}

/// Reports a denial to standard error: standard output belongs to the command.
fn report(denied: &hold::Denial, format: Format) {
    match (format, denied.body["error"].as_str()) {
        (Format::Json, _) => print_error_line(&denied.body.to_string()),
        (Format::Text, Some(error)) => print_error(client::hinted(denied.body["field"].as_str(), error)),
        (Format::Text, None) => {
            let retry = denied.body["retry_after_ms"].as_u64();
            let hint = retry.map_or(String::new(), |wait| {
                format!("; a place is free in {} if no hold is renewed", times::span(wait))
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

/// The exit code after a signal that ended this process.
fn ended_by(signal: rustix::process::Signal) -> Outcome {
    Outcome::OfCommand(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX))
}

/// The exit code of a command, or 128 and the number of the signal that ended it.
fn outcome_of(status: ExitStatus) -> Outcome {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Outcome::OfCommand(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
