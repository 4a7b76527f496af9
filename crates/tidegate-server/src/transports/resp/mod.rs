//! RESP: what any Redis client speaks, in its second and third version.
//!
//! A connection's way: `connection` reads into `input`; `batch` cuts what was read into commands with `request`, and answers
//! them in order: `catalogue` knows their names, `command` makes an [`Ask`](crate::Ask) of those that decide, `session`
//! answers those that client libraries need, `transaction` queues those between MULTI and EXEC; `reply` writes
//! replies, and `decision` writes decisions.

mod about;
mod batch;
mod catalogue;
mod command;
mod connection;
mod decision;
mod input;
mod reply;
mod request;
mod session;
mod throttle;
mod transaction;

pub(crate) use connection::serve;

/// What input is cut into: the commands, how many bytes they are, and whether what follows can be none. Every command is
/// understood or complained about, too.
pub(crate) fn fuzzed(input: &[u8], most: usize) -> (Vec<Vec<Vec<u8>>>, usize, bool) {
    let mut input = input.to_vec();
    let mut requests = request::Requests::default();
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        let (count, ending) = requests.read(&mut input[at..], most);
        for place in 0..requests.len() {
            let args = requests.get(&input[at..], place);
            if let Some(verb) = args.get(0).and_then(catalogue::Verb::named)
                && verb.entry().takes(args.len())
                && let Err(complaint) = command::Command::read(verb, args)
            {
                assert!(complaint.starts_with("ERR ") && complaint.len() < 1024, "{complaint}");
            }
            found.push(args.iter().map(<[u8]>::to_vec).collect());
        }
        at += count;
        if ending != request::Ending::Enough {
            return (found, at, ending != request::Ending::Incomplete);
        }
    }
}
