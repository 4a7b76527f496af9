//! [`Wire`]: a connection that sends commands and reads replies.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    time::Duration,
};

use crate::reply::Reply;

/// Default of [`Wire::set_timeout`].
const TIMEOUT: Duration = Duration::from_secs(10);

/// A blocking connection to a redis server, independent of the client library that is tested.
///
/// A server's error is a [`Reply::Error`]. A broken connection, or ten seconds without bytes, causes a panic, or an
/// [`io::Error`] in the methods that begin with `try_`.
#[derive(Debug)]
pub struct Wire {
    // Also of a unix socket: bytes and timeouts work alike on every socket.
    stream: BufReader<TcpStream>,
}

impl Wire {
    /// Connects to a server.
    ///
    /// # Errors
    /// If no server listens there.
    pub fn try_connect(addr: impl ToSocketAddrs) -> io::Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }

    pub(crate) fn try_connect_unix(path: &Path) -> io::Result<Self> {
        Ok(Self::over(OwnedFd::from(UnixStream::connect(path)?).into()))
    }

    fn over(stream: TcpStream) -> Self {
        let wire = Self { stream: BufReader::new(stream) };
        wire.set_timeout(Some(TIMEOUT));
        wire
    }

    /// Sets the maximum time to wait for bytes; `None` means no maximum.
    #[track_caller]
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(timeout).expect("a timeout that is not zero");
        stream.set_write_timeout(timeout).expect("a timeout that is not zero");
    }

    /// Sends a command and waits for its reply.
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&mut self, args: impl IntoIterator<Item = A>) -> Reply {
        self.try_command(args).unwrap_or_else(|error| panic!("no reply: {error}"))
    }

    /// Sends a command and does not wait for its reply.
    #[track_caller]
    pub fn send<A: AsRef<[u8]>>(&mut self, args: impl IntoIterator<Item = A>) {
        self.try_send(args).unwrap_or_else(|error| panic!("cannot send: {error}"));
    }

    /// Waits for the next reply, as after [`Wire::send`], or for the next line of `MONITOR`.
    #[track_caller]
    pub fn read(&mut self) -> Reply {
        self.try_read().unwrap_or_else(|error| panic!("no reply: {error}"))
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// If the connection is broken, or no bytes arrive in time.
    pub fn try_command<A: AsRef<[u8]>>(&mut self, args: impl IntoIterator<Item = A>) -> io::Result<Reply> {
        self.try_send(args)?;
        self.try_read()
    }

    /// Sends a command and does not wait for its reply.
    ///
    /// # Errors
    /// If the connection is broken or accepts no bytes.
    pub fn try_send<A: AsRef<[u8]>>(&mut self, args: impl IntoIterator<Item = A>) -> io::Result<()> {
        let mut count = 0;
        let mut body = Vec::new();
        for arg in args {
            let arg = arg.as_ref();
            count += 1;
            body.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            body.extend_from_slice(arg);
            body.extend_from_slice(b"\r\n");
        }
        let mut message = format!("*{count}\r\n").into_bytes();
        message.append(&mut body);
        self.stream.get_mut().write_all(&message)
    }

    /// Sends bytes unchanged, such as many commands at once, and does not wait for replies.
    ///
    /// # Errors
    /// If the connection is broken or accepts no bytes.
    pub fn try_send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// If the connection is broken, or no bytes arrive in time.
    pub fn try_read(&mut self) -> io::Result<Reply> {
        let line = self.read_line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(&line))?;
        let number = || rest.parse::<i64>().map_err(|_| malformed(&line));
        match kind {
            "+" => Ok(Reply::Simple(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Integer(number()?)),
            "$" | "*" => match (kind, usize::try_from(number()?)) {
                (_, Err(_)) => Ok(Reply::Bulk(None)),
                ("$", Ok(length)) => self.read_bytes(length).map(|bytes| Reply::Bulk(Some(bytes))),
                (_, Ok(count)) => (0..count).map(|_| self.try_read()).collect::<io::Result<_>>().map(Reply::Array),
            },
            _ => Err(malformed(&line)),
        }
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn read_bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed reply: {line:?}"))
}
