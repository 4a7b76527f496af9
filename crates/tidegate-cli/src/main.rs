//! The command `tidegate`: serve limits, ask for them, try them on logs, check a configuration.

mod arguments;
mod ask;
mod configuration;
mod logging;
mod outcome;
mod overrides;
mod replay;
mod say;
mod serve;
mod simulate;
mod times;
mod top;
mod visible;

use clap::Parser as _;

use crate::{
    arguments::{Arguments, Command, ConfigCommand},
    outcome::Outcome,
};

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Command::Serve(serve) => serve::run(&serve, arguments.format),
        Command::Check(ask) => ask::decide(ask::Verb::Check, &ask, arguments.format),
        Command::Peek(ask) => ask::decide(ask::Verb::Peek, &ask, arguments.format),
        Command::Charge(ask) => ask::decide(ask::Verb::Charge, &ask, arguments.format),
        Command::Refund(refund) => ask::refund(&refund, arguments.format),
        Command::Reset(subject) => ask::reset(&subject, arguments.format),
        Command::Inspect(subject) => ask::inspect(&subject, arguments.format),
        Command::Override(command) => overrides::run(&command, arguments.format),
        Command::Top(top) => top::run(&top, arguments.format),
        Command::Replay(replay) => replay::run(&replay, arguments.format),
        Command::Simulate(command) => simulate::run(&command, arguments.format),
        Command::Config(ConfigCommand::Check { file }) => configuration::check(&file, arguments.format),
        Command::Config(ConfigCommand::ImportEnvoy { file }) => configuration::import_envoy(&file, arguments.format),
    };
    done.unwrap_or_else(|error| {
        say::complain(format_args!("{error:#}"));
        // Whoever asked wrongly is told so; whatever else went wrong is told apart by where it happens.
        Outcome::Usage
    })
    .into()
}
