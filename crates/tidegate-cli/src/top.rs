//! `tidegate top`: shows a service in a terminal.

mod draw;
mod events;
mod live_stream;
mod numbers;
mod once;
#[cfg(test)]
mod samples;
mod snapshot;
mod state;
mod status_text;
mod terminal;
mod theme;

use std::io::IsTerminal as _;

use anyhow::Context as _;

use crate::{
    arguments::{Format, TopArguments},
    client::{self, ApiRequest, Endpoint},
    outcome::Outcome,
    output::print_text,
};

pub(crate) fn run(arguments: &TopArguments, format: Format) -> anyhow::Result<Outcome> {
    let endpoint = Endpoint::new(&arguments.service)?;
    if arguments.once || format == Format::Json || !std::io::stdout().is_terminal() {
        return once(&endpoint, format);
    }
    terminal::watch(&endpoint)
}

/// Prints the current state.
fn once(endpoint: &Endpoint, format: Format) -> anyhow::Result<Outcome> {
    let (status, body) = client::send_to_service(&ApiRequest::get("/v1/overview".to_owned()), endpoint)?;
    if status != 200 || format == Format::Json {
        return client::print_response(status, &body, format, |_| String::new());
    }
    let overview = serde_json::from_value(body).context("the overview of the service can't be read")?;
    print_text(&once::text(&snapshot::Snapshot::new(overview), &endpoint.server))?;
    Ok(Outcome::Good)
}
