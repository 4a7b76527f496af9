//! `tidegate top`: a service watched from a terminal.

mod draw;
mod events;
mod feed;
mod figures;
mod look;
mod once;
mod picture;
#[cfg(test)]
mod samples;
mod state;
mod terminal;
mod words;

use std::io::IsTerminal as _;

use anyhow::Context as _;

use crate::{
    arguments::{Format, TopArguments},
    ask::{self, Place, Question},
    outcome::Outcome,
    say::say,
};

pub(crate) fn run(arguments: &TopArguments, format: Format) -> anyhow::Result<Outcome> {
    let place = Place::new(&arguments.server, arguments.token.as_deref())?;
    if arguments.once || format == Format::Json || !std::io::stdout().is_terminal() {
        return once(&place, format);
    }
    terminal::watch(&place)
}

/// Prints how it is now.
fn once(place: &Place, format: Format) -> anyhow::Result<Outcome> {
    let (status, body) = ask::put_to_service(&Question::get("/v1/overview"), place)?;
    if status != 200 || format == Format::Json {
        return ask::tell(status, &body, format, |_| String::new());
    }
    let overview = serde_json::from_value(body).context("the overview of the service can't be read")?;
    say(&once::text(&picture::Picture::new(overview), &place.server))?;
    Ok(Outcome::Good)
}
