//! An HTTP/2 client that does what it likes: its window is closed, and no limit of the server is heeded.

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

/// A connection whose responses have a window of so many bytes.
pub(super) struct RawHttp2 {
    stream: TcpStream,
    next: u32,
}

/// What has come of requests.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// The blocks of headers of responses, compressed as they received.
    pub(super) responses: Vec<Vec<u8>>,
    pub(super) resets: usize,
    /// Bytes of bodies.
    pub(super) data: usize,
    pub(super) is_closed: bool,
}

impl RawHttp2 {
    pub(super) fn connect(address: SocketAddr, window: u32) -> Self {
        let mut stream = TcpStream::connect(address).expect("it listens");
        // Only so that a test that fails ends.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        stream.set_nodelay(true).expect("a socket has this");
        // No table of headers, and this window.
        let settings: Vec<u8> = [(1_u16, 0), (4, window)]
            .iter()
            .flat_map(|(name, value)| name.to_be_bytes().into_iter().chain(value.to_be_bytes()))
            .collect();
        let hello = [PREFACE, &frame(SETTINGS, 0, 0, &settings)].concat();
        stream.write_all(&hello).expect("it is open");
        Self { stream, next: 1 }
    }

    /// Asks so many times for a path; an error if the connection was closed meanwhile.
    pub(super) fn get(&mut self, path: &str, times: usize, headers: &[(&str, &str)]) -> io::Result<()> {
        let block = block(GET, path, headers);
        for _ in 0..times {
            self.stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, self.next, &block))?;
            self.next += 2;
        }
        Ok(())
    }

    /// Sends the headers of a request whose body follows by `body`; its stream.
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

    /// Waits until the service has read all that was sent; how many requests it has reset meanwhile.
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

    /// Reads until the service says that it will close the connection; how many responses received before that.
    pub(super) fn read_until_go_away(&mut self) -> usize {
        let mut responses = 0;
        loop {
            match self.frame().expect("it is open").0 {
                GO_AWAY => return responses,
                HEADERS => responses += 1,
                _ => {}
            }
        }
    }

    /// Reads until so many requests were answered or reset, or the connection is closed. Windows stay as they are.
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
    /// How many responses have this status.
    pub(super) fn with_status(&self, status: u16) -> usize {
        let digits = status.to_string();
        let is = |block: &Vec<u8>| {
            // It may begin with the size of the table.
            let block = if block[0] & 0xE0 == 0x20 { &block[1..] } else { &block[..] };
            match block[0] {
                0x88 => status == 200,
                0x8C => status == 400,
                0x8D => status == 404,
                // A literal: by the index of :status, its length and its digits.
                0x08 | 0x18 | 0x48 => status_of(&block[1..]) == digits,
                other => panic!("no status: {other:#x}"),
            }
        };
        self.responses.iter().filter(|block| is(block)).count()
    }
}

fn status_of(literal: &[u8]) -> String {
    // Huffman's code for digits: 0, 1 and 2 have five bits, the others six.
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

/// The headers of a request, as literals that nobody has to remember.
fn block(method: u8, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    // :scheme http, :path and :authority.
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

/// A text as HPACK writes it: its length, seven bits first, and its bytes.
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
