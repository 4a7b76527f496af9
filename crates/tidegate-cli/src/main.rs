//! The command `tidegate`: runs the service, sends requests to it, tries limits on logs, checks a configuration.

mod arguments;
mod client;
mod completions;
mod configuration;
mod lease_simulation;
mod logging;
mod man_pages;
mod outcome;
mod output;
mod overrides;
mod replay;
mod reservations;
mod run;
mod serve;
mod simulate;
mod times;
mod top;
mod visible;

use clap::Parser as _;
use serde_json::json;

use crate::{
    arguments::{Arguments, Command, ConfigCommand},
    outcome::Outcome,
};

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Command::Serve(serve) => serve::run(&serve, arguments.format),
        Command::Check(check) => client::decide(client::Operation::Check, &check, arguments.format),
        Command::Peek(check) => client::decide(client::Operation::Peek, &check, arguments.format),
        Command::Charge(check) => client::decide(client::Operation::Charge, &check, arguments.format),
        Command::Reserve(reserve) => reservations::reserve(&reserve, arguments.format),
        Command::Commit(commit) => reservations::commit(&commit, arguments.format),
        Command::Release(release) => reservations::release(&release, arguments.format),
        Command::Renew(renew) => reservations::renew(&renew, arguments.format),
        Command::Run(run) => run::run(run, arguments.format),
        Command::Refund(refund) => client::refund(&refund, arguments.format),
        Command::Reset(subject) => client::run(client::Operation::Reset, &subject, json!({}), arguments.format),
        Command::Inspect(subject) => client::run(client::Operation::Inspect, &subject, json!({}), arguments.format),
        Command::Override(command) => overrides::run(&command, arguments.format),
        Command::Top(top) => top::run(&top, arguments.format),
        Command::Replay(replay) => replay::run(&replay, arguments.format),
        Command::Simulate(command) => simulate::run(&command, arguments.format),
        Command::Config(ConfigCommand::Init { file }) => configuration::init(&file),
        Command::Config(ConfigCommand::Check { file }) => configuration::check(&file, arguments.format),
        Command::Config(ConfigCommand::ImportEnvoy { file }) => configuration::import_envoy(&file, arguments.format),
        Command::Completions { shell } => completions::run(shell),
        Command::Man { directory } => man_pages::run(directory.as_deref()),
    };
    done.unwrap_or_else(|error| {
        output::print_error(format_args!("{error:#}"));
        // All other errors have exit codes of their own where they occur.
        Outcome::Usage
    })
    .into()
}
