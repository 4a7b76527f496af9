//! [`Requests`]: finds commands in the input. A command is an array of bulk strings, as client libraries send it in both versions of
//! the protocol, or a line, as a person types it.
//!
//! The crate redis-protocol parses any frame into an allocated tree of any depth. Here every length must be checked before the service
//! waits for the announced bytes, and that check finds the arguments already. So this parses only commands and allocates nothing.
//! Tests and fuzzing compare it with that crate.

/// Maximum number of arguments. It is more than any command accepts, so that a command with too many gets its own error.
const MAX_ARGUMENTS: i64 = 1024;

/// Maximum length of a line.
const MAX_INLINE: usize = 64 << 10;

/// Maximum number of digits of a length.
const MAX_DIGITS: usize = 18;

/// Maximum number of commands in one batch.
const MAX_COMMANDS: usize = 1024;

/// Maximum number of arguments in one batch.
const MAX_SPANS: usize = 8 << 10;

/// Number of arguments that an idle connection keeps memory for.
const KEPT_SPANS: usize = 1024;

/// The commands in the input, as the positions of their arguments.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    spans: Vec<Span>,
    /// The end of each command in `spans`.
    ends: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
}

/// The reason why no more commands were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The rest is not a complete command yet.
    Incomplete,
    /// The batch is full.
    Enough,
    /// The input violates the protocol.
    Broken(String),
    /// The input is HTTP. It may come from a hostile web page.
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
    pub(crate) fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &self.input[span.start..span.end])
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        self.spans.iter().map(move |span| &self.input[span.start..span.end])
    }
}

impl Requests {
    /// Finds the commands at the start of the input, each with at most `max` bytes. Returns their total length. Quoted lines are
    /// unquoted in place.
    pub(crate) fn read(&mut self, input: &mut [u8], max: usize) -> (usize, Ending) {
        self.spans.clear();
        self.ends.clear();
        let mut at = 0;
        while self.ends.len() < MAX_COMMANDS && self.spans.len() < MAX_SPANS {
            let known = self.spans.len();
            match self.next(input, at, max) {
                Ok(end) => {
                    at = end;
                    if self.spans.len() > known {
                        self.ends.push(self.spans.len());
                    }
                }
                Err(ending) => {
                    self.spans.truncate(known);
                    let is_too_long = ending == Ending::Incomplete && input.len() - at > max;
                    let too_long = || broken(format!("a command has at most {max} bytes"));
                    return (at, if is_too_long { too_long() } else { ending });
                }
            }
        }
        (at, Ending::Enough)
    }

    /// Removes the commands, and releases the memory of a large batch.
    pub(crate) fn clear(&mut self) {
        if self.spans.capacity() > KEPT_SPANS {
            self.spans = Vec::new();
        }
        self.spans.clear();
        self.ends.clear();
    }

    /// Returns the number of commands.
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

    /// Returns a command that was found in this input.
    #[inline]
    pub(crate) fn get<'a>(&'a self, input: &'a [u8], index: usize) -> Args<'a> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Args { input, spans: &self.spans[start..self.ends[index]] }
    }

    /// Parses one command. Returns its end. An empty command has no arguments.
    #[inline]
    fn next(&mut self, input: &mut [u8], start: usize, max: usize) -> Result<usize, Ending> {
        match input.get(start) {
            None => Err(Ending::Incomplete),
            Some(b'*') => self.array(input, start, max),
            Some(_) => self.line(input, start, max),
        }
    }

    #[inline]
    fn array(&mut self, input: &[u8], start: usize, max: usize) -> Result<usize, Ending> {
        let (count, mut at) = number(input, start + 1)?
            .filter(|(count, _)| *count <= MAX_ARGUMENTS)
            .ok_or_else(|| broken(format!("invalid multibulk length, use at most {MAX_ARGUMENTS}")))?;
        for _ in 0..count {
            match input.get(at) {
                None => return Err(Ending::Incomplete),
                Some(b'$') => {}
                Some(other) => return Err(broken(format!("expected '$', got '{}'", other.escape_ascii()))),
            }
            let (len, data) = number(input, at + 1)?.ok_or_else(|| broken("invalid bulk length"))?;
            let len = usize::try_from(len).ok().filter(|len| data - start + len + 2 <= max);
            let too_long = || broken(format!("invalid bulk length, a command has at most {max} bytes"));
            let end = data + len.ok_or_else(too_long)?;
            match input.get(end..end + 2) {
                Some(b"\r\n") => self.spans.push(Span { start: data, end }),
                Some(_) => return Err(broken("a bulk string is longer than its length says")),
                None => return Err(Ending::Incomplete),
            }
            at = end + 2;
        }
        Ok(at)
    }

    fn line(&mut self, input: &mut [u8], start: usize, max: usize) -> Result<usize, Ending> {
        let max = max.min(MAX_INLINE);
        let seen = &input[start..];
        let Some(len) = seen.iter().take(max).position(|byte| *byte == b'\n') else {
            return Err(if seen.len() >= max { broken("too big inline request") } else { Ending::Incomplete });
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
        if self.spans.len() - known > usize::try_from(MAX_ARGUMENTS).unwrap_or(usize::MAX) {
            return Err(broken(format!("too many arguments, use at most {MAX_ARGUMENTS}")));
        }
        Ok(end + 1)
    }
}

fn broken(message: impl Into<String>) -> Ending {
    Ending::Broken(message.into())
}

/// Parses a number and the end of its line. Returns the number and its end, or `None` if it is not a number.
#[inline]
fn number(input: &[u8], start: usize) -> Result<Option<(i64, usize)>, Ending> {
    let negative = input.get(start) == Some(&b'-');
    let first = start + usize::from(negative);
    let (mut at, mut value) = (first, 0_i64);
    loop {
        match input.get(at) {
            Some(digit @ b'0'..=b'9') if at - first < MAX_DIGITS => value = value * 10 + i64::from(digit - b'0'),
            Some(b'\r') if at > first => break,
            Some(_) => return Ok(None),
            None => return Err(Ending::Incomplete),
        }
        at += 1;
    }
    match input.get(at + 1) {
        Some(b'\n') => Ok(Some((if negative { -value } else { value }, at + 2))),
        Some(_) => Ok(None),
        None => Err(Ending::Incomplete),
    }
}

/// Returns whether a line belongs to an HTTP request. A web page can send such a request to any port, with commands in its body.
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

/// Splits a line at its spaces like a shell: `"…"` with escapes, `'…'` with `\'` alone. Quoted arguments are unquoted in
/// place. Returns `None` if a quote is not closed, or is not followed by a space.
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

/// Returns the byte that an escape sequence stands for, and the length of the sequence after the backslash.
fn escaped(rest: &[u8]) -> Option<(u8, usize)> {
    let digit = |index: usize| rest.get(index).and_then(|byte| char::from(*byte).to_digit(16));
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
    use super::{Ending, KEPT_SPANS, MAX_ARGUMENTS, MAX_SPANS, Requests};

    #[test]
    fn the_arguments_of_a_batch_and_the_memory_of_an_idle_connection_are_bounded() {
        let line = format!("{}\r\n", "x ".repeat(1_000));
        let mut input = line.repeat(32).into_bytes();
        let mut requests = Requests::default();
        let (read, ending) = requests.read(&mut input, 64 << 10);
        assert_eq!((ending, read % line.len()), (Ending::Enough, 0));
        assert!(requests.spans.len() < MAX_SPANS + usize::try_from(MAX_ARGUMENTS).expect("it is small"));
        requests.clear();
        assert!(requests.len() == 0 && requests.spans.capacity() <= KEPT_SPANS);
    }
}
