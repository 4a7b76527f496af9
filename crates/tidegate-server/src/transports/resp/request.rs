//! [`Requests`]: bytes to the arguments of commands. An array of bulk strings, as client libraries send it in either version of
//! the protocol, or a line, as a person types it.
//!
//! The crate redis-protocol reads any frame, into a tree that is allocated for each and as deep as the input says. Here
//! every length must be checked before anything waits for what it announces, and who has done that knows where the arguments
//! are. So this reads commands and nothing else, allocates nothing, and is tried against that crate in the tests and in the
//! fuzzing.

/// The most arguments of a command: more than any takes, so that one with too many is told so.
const MOST_ARGUMENTS: i64 = 1024;

/// The longest line, and the longest that a length may be written.
const MOST_INLINE: usize = 64 << 10;
const MOST_DIGITS: usize = 18;

/// Commands answered at one go, with one write, and their arguments; those beyond wait.
const MOST_COMMANDS: usize = 1024;
const MOST_SPANS: usize = 8 << 10;

/// Room for arguments that an idle connection keeps.
const KEPT_SPANS: usize = 1024;

/// Commands found in the input: where their arguments are.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    spans: Vec<Span>,
    /// Where each command's arguments end among the spans.
    ends: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
}

/// Why no more commands were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The rest is not a whole command yet.
    Incomplete,
    /// Enough for now.
    Enough,
    /// The input makes no sense, and what follows can't either.
    Broken(String),
    /// Somebody speaks HTTP: perhaps a web page that was told to.
    Http,
}

/// The arguments of a command, its name first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Args<'a> {
    input: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&'a [u8]> {
        self.spans.get(place).map(|span| &self.input[span.start..span.end])
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        self.spans.iter().map(move |span| &self.input[span.start..span.end])
    }
}

impl Requests {
    /// Finds the commands at the beginning of the input, none of more than `most` bytes; how many bytes they are. Lines with
    /// quotes are unquoted in place.
    pub(crate) fn read(&mut self, input: &mut [u8], most: usize) -> (usize, Ending) {
        self.spans.clear();
        self.ends.clear();
        let mut at = 0;
        while self.ends.len() < MOST_COMMANDS && self.spans.len() < MOST_SPANS {
            let known = self.spans.len();
            match self.next(input, at, most) {
                Ok(Some(end)) => {
                    at = end;
                    if self.spans.len() > known {
                        self.ends.push(self.spans.len());
                    }
                }
                Ok(None) if input.len() - at > most => {
                    self.spans.truncate(known);
                    return (at, broken(format!("a command has at most {most} bytes")));
                }
                Ok(None) => {
                    self.spans.truncate(known);
                    return (at, Ending::Incomplete);
                }
                Err(ending) => {
                    self.spans.truncate(known);
                    return (at, ending);
                }
            }
        }
        (at, Ending::Enough)
    }

    /// Forgets the commands, and what a large batch has made it grow by.
    pub(crate) fn rest(&mut self) {
        if self.spans.capacity() > KEPT_SPANS {
            self.spans = Vec::new();
        }
        self.spans.clear();
        self.ends.clear();
    }

    /// How many commands were found.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds a command, whose arguments are copied to the end of `input`.
    pub(crate) fn push(&mut self, args: Args<'_>, input: &mut Vec<u8>) {
        for argument in args.iter() {
            let start = input.len();
            input.extend_from_slice(argument);
            self.spans.push(Span { start, end: input.len() });
        }
        self.ends.push(self.spans.len());
    }

    /// A command that was found in this input.
    #[inline]
    pub(crate) fn get<'a>(&'a self, input: &'a [u8], place: usize) -> Args<'a> {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        Args { input, spans: &self.spans[start..self.ends[place]] }
    }

    /// Reads one command; where it ends, if it is there as a whole. An empty one has no arguments.
    #[inline]
    fn next(&mut self, input: &mut [u8], start: usize, most: usize) -> Result<Option<usize>, Ending> {
        match input.get(start) {
            None => Ok(None),
            Some(b'*') => self.array(input, start, most),
            Some(_) => self.line(input, start, most),
        }
    }

    #[inline]
    fn array(&mut self, input: &[u8], start: usize, most: usize) -> Result<Option<usize>, Ending> {
        let count = match number(input, start + 1) {
            Number::Read(count, end) if count <= MOST_ARGUMENTS => (count, end),
            Number::Incomplete => return Ok(None),
            _ => return Err(broken(format!("invalid multibulk length, use {MOST_ARGUMENTS} at most"))),
        };
        let (count, mut at) = count;
        for _ in 0..count {
            match input.get(at) {
                None => return Ok(None),
                Some(b'$') => {}
                Some(other) => return Err(broken(format!("expected '$', got '{}'", other.escape_ascii()))),
            }
            let (len, data) = match number(input, at + 1) {
                Number::Read(len, end) => match usize::try_from(len) {
                    Ok(len) if end - start + len + 2 <= most => (len, end),
                    _ => return Err(broken(format!("invalid bulk length, a command has at most {most} bytes"))),
                },
                Number::Incomplete => return Ok(None),
                Number::Wrong => return Err(broken("invalid bulk length")),
            };
            let end = data + len;
            match input.get(end..end + 2) {
                Some(b"\r\n") => self.spans.push(Span { start: data, end }),
                Some(_) => return Err(broken("a bulk string is longer than its length says")),
                None => return Ok(None),
            }
            at = end + 2;
        }
        Ok(Some(at))
    }

    fn line(&mut self, input: &mut [u8], start: usize, most: usize) -> Result<Option<usize>, Ending> {
        let most = most.min(MOST_INLINE);
        let seen = &input[start..];
        let Some(len) = seen.iter().take(most).position(|byte| *byte == b'\n') else {
            return if seen.len() >= most { Err(broken("too big inline request")) } else { Ok(None) };
        };
        let end = start + len;
        let line = &mut input[start..end];
        if speaks_http(line) {
            return Err(Ending::Http);
        }
        let known = self.spans.len();
        if split(line, |from, to| self.spans.push(Span { start: start + from, end: start + to })).is_none() {
            return Err(broken("unbalanced quotes in request"));
        }
        if self.spans.len() - known > usize::try_from(MOST_ARGUMENTS).unwrap_or(usize::MAX) {
            return Err(broken(format!("too many arguments, use {MOST_ARGUMENTS} at most")));
        }
        Ok(Some(end + 1))
    }
}

fn broken(message: impl Into<String>) -> Ending {
    Ending::Broken(message.into())
}

enum Number {
    Read(i64, usize),
    Incomplete,
    Wrong,
}

/// Reads a number with its end of line.
#[inline]
fn number(input: &[u8], start: usize) -> Number {
    let negative = input.get(start) == Some(&b'-');
    let first = start + usize::from(negative);
    let (mut at, mut value) = (first, 0_i64);
    loop {
        match input.get(at) {
            Some(digit @ b'0'..=b'9') if at - first < MOST_DIGITS => value = value * 10 + i64::from(digit - b'0'),
            Some(b'\r') if at > first => break,
            Some(_) => return Number::Wrong,
            None => return Number::Incomplete,
        }
        at += 1;
    }
    match input.get(at + 1) {
        Some(b'\n') => Number::Read(if negative { -value } else { value }, at + 2),
        Some(_) => Number::Wrong,
        None => Number::Incomplete,
    }
}

/// Whether a line is of an HTTP request. A web page can send such a request to any port, with commands in its body.
fn speaks_http(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (Some(first), second) = (words.next(), words.next()) else { return false };
    let is = |word: &str| first.eq_ignore_ascii_case(word.as_bytes());
    let requests = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "PRI"];
    is("POST")
        || is("Host:")
        || requests.iter().any(|method| is(method))
            && (second.is_some_and(|target| target.starts_with(b"/"))
                || words.next().is_some_and(|version| version.starts_with(b"HTTP/")))
}

/// Splits a line at its spaces, as a shell would: `"…"` with escapes, `'…'` with `\'` alone. Quoted arguments are unquoted in
/// place. `None` if a quote is not closed, or is not followed by a space.
fn split(line: &mut [u8], mut found: impl FnMut(usize, usize)) -> Option<()> {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        if at == line.len() {
            return Some(());
        }
        let start = at;
        let mut to = at;
        let mut quote = None;
        loop {
            let byte = match (quote, line.get(at).copied()) {
                (None, None) => break,
                (None, Some(byte)) if byte.is_ascii_whitespace() => break,
                (Some(_), None) => return None,
                (None, Some(b'"' | b'\'')) => {
                    quote = Some(line[at]);
                    at += 1;
                    continue;
                }
                (Some(open), Some(byte)) if open == byte => {
                    if line.get(at + 1).is_some_and(|next| !next.is_ascii_whitespace()) {
                        return None;
                    }
                    quote = None;
                    at += 1;
                    continue;
                }
                (Some(b'"'), Some(b'\\')) => {
                    let (byte, len) = escaped(&line[at + 1..])?;
                    at += len;
                    byte
                }
                (Some(b'\''), Some(b'\\')) if line.get(at + 1) == Some(&b'\'') => {
                    at += 1;
                    b'\''
                }
                (_, Some(byte)) => byte,
            };
            at += 1;
            line[to] = byte;
            to += 1;
        }
        found(start, to);
    }
}

/// What follows a backslash, and how many bytes it is.
fn escaped(rest: &[u8]) -> Option<(u8, usize)> {
    let digit = |place: usize| rest.get(place).and_then(|byte| char::from(*byte).to_digit(16));
    if let (Some(b'x'), Some(high), Some(low)) = (rest.first(), digit(1), digit(2)) {
        return Some((u8::try_from(high * 16 + low).ok()?, 3));
    }
    let byte = match *rest.first()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    };
    Some((byte, 1))
}

#[cfg(test)]
mod tests {
    use super::{Ending, KEPT_SPANS, MOST_ARGUMENTS, MOST_SPANS, Requests};

    #[test]
    fn arguments_of_one_batch_are_bounded_and_an_idle_connection_keeps_few() {
        let line = format!("{}\r\n", "x ".repeat(1_000));
        let mut input = line.repeat(32).into_bytes();
        let mut requests = Requests::default();
        let (read, ending) = requests.read(&mut input, 64 << 10);
        assert_eq!((ending, read % line.len()), (Ending::Enough, 0));
        assert!(requests.spans.len() < MOST_SPANS + usize::try_from(MOST_ARGUMENTS).expect("it is small"));
        requests.rest();
        assert!(requests.len() == 0 && requests.spans.capacity() <= KEPT_SPANS);
    }
}
