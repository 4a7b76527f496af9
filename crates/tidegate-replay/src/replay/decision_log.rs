//! [`DecisionLog`]: writes every decision of the main policy as a CSV row.

use std::io::{self, Write};

use tidegate::Decision;

use crate::logs::{Request, display_key};

/// Writes `time_us,key,cost,reason,remaining,retry_after_us,reset_after_us`.
pub struct DecisionLog<W> {
    out: W,
}

impl<W: Write> DecisionLog<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// If the output fails.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"time_us,key,cost,reason,remaining,retry_after_us,reset_after_us\n")?;
        Ok(Self { out })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// If the output fails.
    pub fn write(&mut self, request: &Request<'_>, decision: &Decision) -> io::Result<()> {
        let mut number = itoa::Buffer::new();
        self.out.write_all(number.format(request.time_us).as_bytes())?;
        self.out.write_all(b",")?;
        self.write_key(request.key)?;
        let mut field = |text: &str| self.out.write_all(b",").and_then(|()| self.out.write_all(text.as_bytes()));
        field(number.format(request.cost))?;
        field(decision.reason().as_str())?;
        field(number.format(decision.remaining()))?;
        field(decision.retry_after().map_or("", |wait| number.format(wait.as_micros())))?;
        field(number.format(decision.reset_after().as_micros()))?;
        self.out.write_all(b"\n")
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// If the output fails.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes a key, quoted where CSV requires it. A key with control characters or several parts is written for people.
    fn write_key(&mut self, key: &[u8]) -> io::Result<()> {
        let is_plain = |byte: &u8| *byte >= b' ' && !matches!(byte, b',' | b'"');
        if key.iter().all(is_plain) {
            return self.out.write_all(key);
        }
        let text = if key.iter().any(|byte| *byte < b' ') { display_key(key).into_bytes() } else { key.to_vec() };
        self.out.write_all(b"\"")?;
        for (i, piece) in text.split(|byte| *byte == b'"').enumerate() {
            self.out.write_all(if i > 0 { b"\"\"" } else { b"" })?;
            self.out.write_all(piece)?;
        }
        self.out.write_all(b"\"")
    }
}
