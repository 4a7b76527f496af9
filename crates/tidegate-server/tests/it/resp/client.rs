//! A minimal RESP client. The crate redis-protocol decodes the replies.

use std::{
    fmt,
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

use redis_protocol::{resp2, resp3};

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
    pub(crate) resp3: bool,
}

/// A reply in either version of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Null,
    Bool(bool),
    List(Vec<Reply>),
    /// Sorted by name.
    Map(Vec<(String, Reply)>),
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the service listens");
        stream.set_nodelay(true).expect("a socket has this");
        // So that a failing test ends.
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        stream.set_write_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        Self { stream, unread: Vec::new(), resp3: false }
    }

    /// Connects and selects RESP3.
    pub(crate) fn connect3(address: SocketAddr) -> Self {
        let mut client = Self::connect(address);
        client.resp3 = true;
        assert_eq!(client.call("HELLO 3").field("proto"), Reply::Int(3));
        client
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the service reads");
    }

    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Closes the sending side.
    pub(crate) fn finish(&mut self) {
        // The connection may already be closed.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Sends a command, given as words, and reads the reply.
    #[track_caller]
    pub(crate) fn call(&mut self, words: &str) -> Reply {
        self.send(&command(words.split(' ')));
        self.read()
    }

    #[track_caller]
    pub(crate) fn read(&mut self) -> Reply {
        self.try_read().expect("a reply comes").expect("the connection is open")
    }

    /// Returns the next reply, or `None` if the connection was closed.
    pub(crate) fn try_read(&mut self) -> io::Result<Option<Reply>> {
        loop {
            let decoded = if self.resp3 {
                let decoded = resp3::decode::complete::decode(&self.unread).expect("replies are well-formed");
                decoded.map(|(frame, len)| (Reply::of3(frame), len))
            } else {
                let decoded = resp2::decode::decode(&self.unread).expect("replies are well-formed");
                decoded.map(|(frame, len)| (Reply::of2(frame), len))
            };
            if let Some((reply, len)) = decoded {
                self.unread.drain(..len);
                return Ok(Some(reply));
            }
            let mut chunk = vec![0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    assert!(self.unread.is_empty(), "a reply was cut off");
                    return Ok(None);
                }
                Ok(count) => self.unread.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Asserts that the connection is closed without another reply.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        let reply = self.try_read().expect("the connection is closed in time");
        assert_eq!(reply, None, "the connection should be closed");
    }
}

/// Encodes a command as client libraries do.
pub(crate) fn command<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Vec<u8> {
    let words: Vec<W> = words.into_iter().collect();
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in &words {
        bytes.extend_from_slice(format!("${}\r\n", word.as_ref().len()).as_bytes());
        bytes.extend_from_slice(word.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("it is text")
}

impl Reply {
    pub(crate) fn bulk(text: &str) -> Self {
        Self::Bulk(text.as_bytes().to_vec())
    }

    pub(crate) fn ints(numbers: &[i64]) -> Self {
        Self::List(numbers.iter().copied().map(Self::Int).collect())
    }

    /// Returns the numbers of a list.
    #[track_caller]
    pub(crate) fn numbers(&self) -> Vec<i64> {
        let Self::List(items) = self else { panic!("not a list: {self:?}") };
        let number = |item: &Self| match item {
            Self::Int(number) => *number,
            other => panic!("not a number: {other:?}"),
        };
        items.iter().map(number).collect()
    }

    /// Returns the value of a name in a map or in a flat list of names and values.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> Self {
        let found = match self {
            Self::Map(pairs) => pairs.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone()),
            Self::List(items) => {
                items.chunks(2).find(|pair| pair[0] == Self::bulk(name)).and_then(|pair| pair.get(1).cloned())
            }
            _ => None,
        };
        found.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// Returns the text of an error.
    #[track_caller]
    pub(crate) fn error(&self) -> &str {
        let Self::Error(text) = self else { panic!("not an error: {self:?}") };
        text
    }

    #[track_caller]
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Simple(text) => text.clone(),
            Self::Bulk(bytes) => text(bytes.clone()),
            other => panic!("not a text: {other:?}"),
        }
    }

    fn of2(frame: resp2::types::OwnedFrame) -> Self {
        use resp2::types::OwnedFrame as Frame;
        match frame {
            Frame::SimpleString(bytes) => Self::Simple(text(bytes)),
            Frame::Error(text) => Self::Error(text),
            Frame::Integer(number) => Self::Int(number),
            Frame::BulkString(bytes) => Self::Bulk(bytes),
            Frame::Array(frames) => Self::List(frames.into_iter().map(Self::of2).collect()),
            Frame::Null => Self::Null,
        }
    }

    fn of3(frame: resp3::types::OwnedFrame) -> Self {
        use resp3::types::OwnedFrame as Frame;
        match frame {
            Frame::SimpleString { data, .. } => Self::Simple(text(data)),
            Frame::SimpleError { data, .. } => Self::Error(data),
            Frame::Number { data, .. } => Self::Int(data),
            Frame::BlobString { data, .. } | Frame::VerbatimString { data, .. } => Self::Bulk(data),
            Frame::Null => Self::Null,
            Frame::Boolean { data, .. } => Self::Bool(data),
            Frame::Array { data, .. } => Self::List(data.into_iter().map(Self::of3).collect()),
            Frame::Set { data, .. } => Self::List(data.into_iter().map(Self::of3).collect()),
            Frame::Map { data, .. } => {
                let pair = |(name, value)| (Self::of3(name).text(), Self::of3(value));
                let mut pairs: Vec<_> = data.into_iter().map(pair).collect();
                pairs.sort_by(|a, b| a.0.cmp(&b.0));
                Self::Map(pairs)
            }
            other => panic!("not used here: {other:?}"),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}
