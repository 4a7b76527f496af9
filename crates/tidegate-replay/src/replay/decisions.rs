//! [`DecisionLog`]: every decision of the policy asked about, one row each, for machines.

use std::io::{self, Write};

use tidegate::Decision;

use crate::logs::{Request, shown};

/// Writes `time_us,key,cost,reason,remaining,retry_after_us,reset_after_us`.
pub struct DecisionLog<W> {
    out: W,
}

impl<W: Write> DecisionLog<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"time_us,key,cost,reason,remaining,retry_after_us,reset_after_us\n")?;
        Ok(Self { out })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn note(&mut self, request: &Request<'_>, decision: &Decision) -> io::Result<()> {
        let mut number = itoa::Buffer::new();
        self.out.write_all(number.format(request.time_us).as_bytes())?;
        self.out.write_all(b",")?;
        self.key(request.key)?;
        self.out.write_all(b",")?;
        self.out.write_all(number.format(request.cost).as_bytes())?;
        self.out.write_all(b",")?;
        self.out.write_all(decision.reason().as_str().as_bytes())?;
        self.out.write_all(b",")?;
        self.out.write_all(number.format(decision.remaining()).as_bytes())?;
        self.out.write_all(b",")?;
        if let Some(wait) = decision.retry_after() {
            self.out.write_all(number.format(wait.as_micros()).as_bytes())?;
        }
        self.out.write_all(b",")?;
        self.out.write_all(number.format(decision.reset_after().as_micros()).as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// Writes what is still held.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// A key as it is, quoted where a reader would else take it apart; one of several parts, or with what can't be printed in it, as a person
    /// reads it.
    fn key(&mut self, key: &[u8]) -> io::Result<()> {
        let is_plain = |byte: &u8| *byte >= b' ' && !matches!(byte, b',' | b'"');
        if key.iter().all(is_plain) {
            return self.out.write_all(key);
        }
        let text = if key.iter().any(|byte| *byte < b' ') { shown(key).into_bytes() } else { key.to_vec() };
        self.out.write_all(b"\"")?;
        for (i, piece) in text.split(|byte| *byte == b'"').enumerate() {
            self.out.write_all(if i > 0 { b"\"\"" } else { b"" })?;
            self.out.write_all(piece)?;
        }
        self.out.write_all(b"\"")
    }
}
