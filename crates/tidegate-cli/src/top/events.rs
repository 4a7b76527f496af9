//! [`Events`]: parses server-sent events.

/// Maximum bytes of a line and of an event: many times the size of the largest overview.
const LONGEST: usize = 16 << 20;

/// An event: its name and its data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// The part of an event that has arrived.
#[derive(Debug)]
pub(crate) struct Events {
    line: Vec<u8>,
    name: String,
    data: String,
    /// Whether the last byte was a `\r`: then a `\n` belongs to it.
    after_return: bool,
    longest: usize,
}

/// An event is longer than any event of the service.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Events {
    pub(crate) fn new() -> Self {
        Self::bounded(LONGEST)
    }

    fn bounded(longest: usize) -> Self {
        Self { line: Vec::new(), name: String::new(), data: String::new(), after_return: false, longest }
    }

    /// Adds bytes. Returns the events that are complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, after) = end.map_or((rest, None), |end| (&rest[..end], Some(end)));
            if self.line.len() + part.len() + self.data.len() > self.longest {
                return Err(TooLong);
            }
            self.line.extend_from_slice(part);
            let Some(end) = after else { break };
            self.after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            events.extend(self.line_ended(&String::from_utf8_lossy(&line)));
        }
        Ok(events)
    }

    fn line_ended(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let (name, mut data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            data.pop();
            return (!data.is_empty()).then_some(Event { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            // Comments keep connections awake; ids and retries are not used.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Events, TooLong};

    const STREAM: &str = ": awake\r\n\r\nevent: tick\r\ndata: {\"a\":\rdata: \"ü\"}\n\nevent:x\n\ndata:1\nid: 4\n\r\n";

    fn expected() -> Vec<Event> {
        let event = |name: &str, data: &str| Event { name: name.to_owned(), data: data.to_owned() };
        vec![event("tick", "{\"a\":\n\"ü\"}"), event("", "1")]
    }

    #[test]
    fn events_do_not_depend_on_the_chunks_of_the_input() {
        for size in 1..=STREAM.len() {
            let mut events = Events::new();
            let parsed: Vec<Event> =
                STREAM.as_bytes().chunks(size).flat_map(|chunk| events.push(chunk).expect("short")).collect();
            assert_eq!(parsed, expected(), "in chunks of {size}");
        }
    }

    #[test]
    fn lines_and_events_that_are_too_long_are_refused() {
        let mut line = Events::bounded(100);
        assert!((0..10).all(|_| line.push(b"data: 1234").is_ok()));
        assert_eq!(line.push(b"5"), Err(TooLong));
        let mut lines = Events::bounded(100);
        assert!((0..100).any(|_| lines.push(b"data: 1234\n") == Err(TooLong)));
    }
}
