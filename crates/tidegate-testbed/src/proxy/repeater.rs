//! [`Repeater`]: finds the commands in the bytes of a client, and sends some of them again.

use std::{
    io::{self, Read},
    net::TcpStream,
    sync::{Arc, mpsc::Sender},
    thread,
    time::Instant,
};

use super::{Shared, write_later};

/// A second connection to the server, on which copies of commands are sent.
pub(super) struct Repeater {
    shared: Arc<Shared>,
    /// The beginning of a command that has not arrived completely.
    beginning: Vec<u8>,
    copies: Sender<(Instant, Vec<u8>)>,
}

impl Repeater {
    pub(super) fn connect(shared: &Arc<Shared>) -> io::Result<Self> {
        let mut server = TcpStream::connect(shared.target)?;
        shared.keep(&server)?;
        let copies = write_later(server.try_clone()?);
        // The replies have to be read, or the server stops reading commands.
        thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(1..) = server.read(&mut buffer) {}
        });
        Ok(Self { shared: Arc::clone(shared), beginning: Vec::new(), copies })
    }

    /// Reads bytes of the client.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        self.beginning.extend_from_slice(bytes);
        while let Some(length) = length_of_command(&self.beginning) {
            let command: Vec<u8> = self.beginning.drain(..length).collect();
            if self.shared.repetitions.happens() {
                // It arrives after the command itself, even if that is delayed.
                let due = Instant::now() + 3 * self.shared.half_delay();
                // A closed connection loses the copy.
                let _ = self.copies.send((due, command));
            }
        }
    }
}

/// The length of the first command: an array of bulk strings. `None` if it has not arrived completely.
fn length_of_command(bytes: &[u8]) -> Option<usize> {
    let (arguments, mut at) = number_after(b'*', bytes, 0)?;
    for _ in 0..arguments {
        let (length, start) = number_after(b'$', bytes, at)?;
        at = start + length + b"\r\n".len();
    }
    (at <= bytes.len()).then_some(at)
}

/// The number in a line that begins with `sign`, and the place after the line.
fn number_after(sign: u8, bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let line = bytes.get(at..)?;
    let end = line.windows(2).position(|pair| pair == b"\r\n")?;
    assert_eq!(line[0], sign, "clients send arrays of bulk strings");
    let number = std::str::from_utf8(&line[1..end]).ok().and_then(|digits| digits.parse().ok());
    Some((number.expect("a length"), at + end + 2))
}

#[test]
fn a_command_is_found_when_all_of_it_has_arrived() {
    let command = b"*2\r\n$3\r\nGET\r\n$5\r\n*1\r\n$\r\n";
    let two = [command.as_slice(), command].concat();
    for end in 0..two.len() {
        let expected = (end >= command.len()).then_some(command.len());
        assert_eq!(length_of_command(&two[..end]), expected, "{end}");
    }
}
