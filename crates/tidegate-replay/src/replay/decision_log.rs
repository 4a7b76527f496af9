//! [`DecisionLog`]: writes every decision of the main policy as a CSV row, in the order of the input.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use tidegate::Decision;

use crate::logs::{Request, display_key};

/// Writes `time_us,key,cost,reason,remaining,retry_after_us,reset_after_us`.
///
/// Late requests are decided before requests that precede them in the input. Their rows wait. The reader bounds their number.
pub struct DecisionLog<W> {
    out: W,
    /// Position of the next row.
    next: u64,
    /// Rows that wait for rows before them, by position.
    waiting: BTreeMap<u64, Vec<u8>>,
}

impl<W: Write> DecisionLog<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// If the output fails.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"time_us,key,cost,reason,remaining,retry_after_us,reset_after_us\n")?;
        Ok(Self { out, next: 0, waiting: BTreeMap::new() })
    }

    /// Writes a row, or holds it until the rows before it are written.
    ///
    /// # Errors
    /// If the output fails.
    pub fn write(&mut self, request: &Request<'_>, decision: &Decision) -> io::Result<()> {
        if request.position != self.next {
            let mut row = Vec::new();
            write_row(&mut row, request, decision)?;
            self.waiting.insert(request.position, row);
            return Ok(());
        }
        write_row(&mut self.out, request, decision)?;
        self.next += 1;
        while let Some(row) = self.waiting.remove(&self.next) {
            self.out.write_all(&row)?;
            self.next += 1;
        }
        Ok(())
    }

    /// Writes the rows that still wait because the replay was interrupted, and flushes the output.
    ///
    /// # Errors
    /// If the output fails.
    pub fn finish(mut self) -> io::Result<()> {
        for row in self.waiting.values() {
            self.out.write_all(row)?;
        }
        self.out.flush()
    }
}

fn write_row(out: &mut impl Write, request: &Request<'_>, decision: &Decision) -> io::Result<()> {
    let mut number = itoa::Buffer::new();
    out.write_all(number.format(request.time_us).as_bytes())?;
    out.write_all(b",")?;
    write_key(out, request.key)?;
    let mut field = |text: &str| out.write_all(b",").and_then(|()| out.write_all(text.as_bytes()));
    field(number.format(request.cost))?;
    field(decision.reason().as_str())?;
    field(number.format(decision.remaining()))?;
    field(decision.retry_after().map_or("", |wait| number.format(wait.as_micros())))?;
    field(number.format(decision.reset_after().as_micros()))?;
    out.write_all(b"\n")
}

/// Writes a key, quoted where CSV requires it. A key with control characters or several parts is written for people.
fn write_key(out: &mut impl Write, key: &[u8]) -> io::Result<()> {
    let is_plain = |byte: &u8| *byte >= b' ' && !matches!(byte, b',' | b'"');
    if key.iter().all(is_plain) {
        return out.write_all(key);
    }
    let text = if key.iter().any(|byte| *byte < b' ') { display_key(key).into_bytes() } else { key.to_vec() };
    out.write_all(b"\"")?;
    for (i, piece) in text.split(|byte| *byte == b'"').enumerate() {
        out.write_all(if i > 0 { b"\"\"" } else { b"" })?;
        out.write_all(piece)?;
    }
    out.write_all(b"\"")
}
