//! An HTTP/2 client that ignores the limits of the server and can keep its window closed.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
/// `:method` in HPACK.
const GET: u8 = 0x82;
const POST: u8 = 0x83;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A connection with a fixed window for each response.
pub(super) struct RawHttp2 {
    stream: TcpStream,
    next: u32,
}

/// The received frames.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// The compressed header blocks of responses.
    pub(super) responses: Vec<Vec<u8>>,
    pub(super) resets: usize,
    /// The number of body bytes.
    pub(super) data: usize,
    pub(super) is_closed: bool,
}

impl RawHttp2 {
    pub(super) fn connect(address: SocketAddr, window: u32) -> Self {
        let mut stream = TcpStream::connect(address).expect("the service listens");
        // So that a failing test ends.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream.set_nodelay(true).expect("a socket has this");
        // No header table, and this window.
        let settings: Vec<u8> = [(1_u16, 0), (4, window)]
            .iter()
            .flat_map(|(name, value)| name.to_be_bytes().into_iter().chain(value.to_be_bytes()))
            .collect();
        let hello = [PREFACE, &frame(SETTINGS, 0, 0, &settings)].concat();
        stream.write_all(&hello).expect("the connection is open");
        Self { stream, next: 1 }
    }

    /// Sends `times` GET requests. Fails if the connection was closed.
    pub(super) fn get(&mut self, path: &str, times: usize, headers: &[(&str, &str)]) -> io::Result<()> {
        let block = block(GET, path, headers);
        for _ in 0..times {
            self.stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, self.next, &block))?;
            self.next += 2;
        }
        Ok(())
    }

    /// Sends the headers of a request and returns its stream. `body` sends the body.
    pub(super) fn post(&mut self, path: &str, headers: &[(&str, &str)]) -> io::Result<u32> {
        let stream = self.next;
        self.stream.write_all(&frame(HEADERS, END_HEADERS, stream, &block(POST, path, headers)))?;
        self.next += 2;
        Ok(stream)
    }

    /// Sends the body of a request.
    pub(super) fn body(&mut self, stream: u32, body: &str) -> io::Result<()> {
        self.stream.write_all(&frame(DATA, END_STREAM, stream, body.as_bytes()))
    }

    /// Waits until the service has read everything that was sent. Returns the number of requests reset meanwhile.
    pub(super) fn ping(&mut self) -> io::Result<usize> {
        self.stream.write_all(&frame(PING, 0, 0, &[0; 8]))?;
        let mut resets = 0;
        loop {
            match self.frame()?.0 {
                PING => return Ok(resets),
                RESET => resets += 1,
                _ => {}
            }
        }
    }

    /// Reads until the service sends GOAWAY. Returns the number of responses before it.
    pub(super) fn read_until_go_away(&mut self) -> usize {
        let mut responses = 0;
        loop {
            match self.frame().expect("the connection is open").0 {
                GO_AWAY => return responses,
                HEADERS => responses += 1,
                _ => {}
            }
        }
    }

    /// Reads until this number of requests was answered or reset, or the connection is closed. Does not open windows.
    pub(super) fn read(&mut self, requests: usize) -> Received {
        let mut received = Received::default();
        while received.responses.len() + received.resets < requests {
            let Ok((kind, payload)) = self.frame() else {
                received.is_closed = true;
                break;
            };
            match kind {
                HEADERS => received.responses.push(payload),
                RESET => received.resets += 1,
                DATA => received.data += payload.len(),
                _ => {}
            }
        }
        received
    }

    /// Reads until the connection is closed.
    pub(super) fn read_to_end(&mut self) {
        while let Ok(_frame) = self.frame() {}
    }

    fn frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("24 bits")];
        self.stream.read_exact(&mut payload)?;
        Ok((head[3], payload))
    }
}

impl Received {
    /// Returns the number of responses with this status.
    pub(super) fn with_status(&self, status: u16) -> usize {
        let digits = status.to_string();
        let is = |block: &Vec<u8>| {
            // The block may start with a table size update.
            let block = if block[0] & 0xE0 == 0x20 { &block[1..] } else { &block[..] };
            match block[0] {
                0x88 => status == 200,
                0x8C => status == 400,
                0x8D => status == 404,
                // A literal: the index of `:status`, the length and the digits.
                0x08 | 0x18 | 0x48 => status_of(&block[1..]) == digits,
                other => panic!("no status: {other:#x}"),
            }
        };
        self.responses.iter().filter(|block| is(block)).count()
    }
}

fn status_of(literal: &[u8]) -> String {
    // The Huffman code for digits: 0, 1 and 2 have five bits, the others six.
    let (length, is_coded) = (usize::from(literal[0] & 0x7F), literal[0] & 0x80 != 0);
    let bytes = &literal[1..=length];
    if !is_coded {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let bits = bytes.iter().map(|byte| format!("{byte:08b}")).collect::<Vec<_>>().concat();
    let mut rest = bits.as_str();
    let mut digits = String::new();
    while digits.len() < 3 {
        let short = u8::from_str_radix(&rest[..5], 2).expect("bits");
        let (digit, used) =
            if short < 3 { (short, 5) } else { (u8::from_str_radix(&rest[..6], 2).expect("bits") - 22, 6) };
        digits.push(char::from(b'0' + digit));
        rest = &rest[used..];
    }
    digits
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Encodes the headers of a request as literals without indexing.
fn block(method: u8, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    // `:scheme` http, `:path` and `:authority`.
    let mut block = vec![method, 0x86, 0x04];
    text(&mut block, path);
    block.push(0x01);
    text(&mut block, "localhost");
    for (name, value) in headers {
        block.push(0);
        text(&mut block, name);
        text(&mut block, value);
    }
    block
}

/// Encodes a string for HPACK: its length with a 7-bit prefix, and its bytes.
fn text(block: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 127 {
        block.push(u8::try_from(length).expect("seven bits"));
    } else {
        block.push(127);
        length -= 127;
        while length >= 128 {
            block.push(u8::try_from(length % 128).expect("seven bits") | 0x80);
            length /= 128;
        }
        block.push(u8::try_from(length).expect("seven bits"));
    }
    block.extend_from_slice(text.as_bytes());
}
