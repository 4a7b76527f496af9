//! RESP, the protocol of Redis clients, in its versions 2 and 3.
//!
//! The path of a command: `connection` reads bytes into `input`; `batch` finds the commands with `request` and answers them in order.
//! `commands` is the table of all commands, `command` parses those that the service answers, `session` and `about` answer those
//! that client libraries need, `transaction` queues those between MULTI and EXEC; `reply` and `decision` write replies.

mod about;
mod batch;
mod command;
mod commands;
mod connection;
mod decision;
mod input;
mod reply;
mod request;
mod session;
mod throttle;
mod transaction;

pub(crate) use connection::serve;

/// Returns the commands in the input, their total length, and whether the rest violates the protocol. Every command is also parsed.
pub(crate) fn fuzzed(input: &[u8], max: usize) -> (Vec<Vec<Vec<u8>>>, usize, bool) {
    let mut input = input.to_vec();
    let mut requests = request::Requests::default();
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        let (count, ending) = requests.read(&mut input[at..], max);
        for index in 0..requests.len() {
            let args = requests.get(&input[at..], index);
            if let Some(info) = args.get(0).and_then(commands::CommandInfo::named)
                && info.takes(args.len())
                && let Err(error) = command::Command::parse(info.verb, args)
            {
                assert!(error.starts_with("ERR ") && error.len() < 1024, "{error}");
            }
            found.push(args.iter().map(<[u8]>::to_vec).collect());
        }
        at += count;
        if ending != request::Ending::Enough {
            return (found, at, ending != request::Ending::Incomplete);
        }
    }
}
