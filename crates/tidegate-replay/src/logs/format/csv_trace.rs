//! [`CsvTrace`]: a trace as CSV. The first line names the columns, such as `time_us,key,cost`.

use std::ops::Range;

use super::{LineError, NoField};
use crate::logs::{
    duration,
    fields::{Field, FieldColumn, Fields, first_of, time_names},
    time,
};

#[derive(Debug)]
pub(in crate::logs) struct CsvTrace {
    columns: usize,
    time: usize,
    /// Whether the time must be a number of microseconds.
    is_micros: bool,
    /// Unit of the duration, by the name of its column.
    duration_unit: Option<u64>,
    /// Column of each wanted field, if it exists.
    wanted: Vec<Option<FieldColumn>>,
    cells: Vec<Range<usize>>,
    quoted: Vec<u8>,
    unquoted: Vec<u8>,
}

/// Returns whether a line names the columns of a trace.
pub(super) fn is_header(line: &[u8]) -> bool {
    let mut names = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    names.any(|name| matches!(name, b"time_us" | b"\"time_us\"")) && line.contains(&b',')
}

impl CsvTrace {
    /// Creates a reader of these fields. Also returns the length of the header line.
    pub(super) fn new(beginning: &[u8], wanted: &[Field]) -> Result<(Self, usize), NoField> {
        let blank = beginning.len() - beginning.trim_ascii_start().len();
        let header = memchr::memchr(b'\n', &beginning[blank..]).map_or(beginning.len(), |newline| blank + newline + 1);
        let text = String::from_utf8_lossy(&beginning[..header]);
        let names: Vec<String> = text.trim().split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect();
        let none = |field: &Field| {
            let columns: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            let known = match columns[..] {
                [] => "its first line must name its columns, as in time_us,key,cost".to_owned(),
                _ => format!("its columns are {}", columns.join(", ")),
            };
            (field.clone(), known)
        };
        let time = first_of(&time_names(), &names).ok_or_else(|| none(&Field::Named("time_us".to_owned())))?;
        let find = |field: &Field| match field {
            Field::Client => Field::Key.column(&names).or_else(|| Field::Ip.column(&names)),
            field => field.column(&names),
        };
        let column = |field: &Field| match find(field) {
            // In a trace without costs, every request costs 1.
            None if *field != Field::Cost => Err(none(field)),
            column => Ok(column),
        };
        let trace = Self {
            columns: names.len(),
            time,
            is_micros: names[time] == "time_us",
            duration_unit: duration::unit_of_column(wanted, &names),
            wanted: wanted.iter().map(column).collect::<Result<_, _>>()?,
            cells: Vec::new(),
            quoted: Vec::new(),
            unquoted: Vec::new(),
        };
        Ok((trace, header))
    }

    pub(super) fn read(&mut self, line: &[u8], fields: &mut Fields) -> Result<u64, LineError> {
        let is_quoted = memchr::memchr(b'"', line).is_some();
        fields.unit = self.duration_unit;
        self.cells.clear();
        if is_quoted {
            self.unquote(line)?;
        } else {
            let mut from = 0;
            for comma in memchr::memchr_iter(b',', line) {
                self.cells.push(from..comma);
                from = comma + 1;
            }
            self.cells.push(from..line.len());
        }
        if self.cells.len() != self.columns {
            return Err(COLUMNS);
        }
        let cell = |column: usize| -> &[u8] {
            if is_quoted { &self.unquoted[self.cells[column].clone()] } else { &line[self.cells[column].clone()] }
        };
        let text = cell(self.time).trim_ascii();
        let time_us = if self.is_micros { time::micros(text) } else { time::any(text) };
        let time_us = time_us.ok_or("its time is not a number of microseconds up to 9000000000000000")?;
        for (number, column) in self.wanted.iter().enumerate() {
            let Some(column) = *column else { continue };
            let text = cell(column.index);
            fields.text(number, &text[column.part(text)]);
        }
        Ok(time_us)
    }

    /// Splits a line with quotes into its cells.
    fn unquote(&mut self, line: &[u8]) -> Result<(), LineError> {
        self.quoted.clear();
        self.quoted.extend_from_slice(line);
        self.quoted.push(b'\n');
        self.unquoted.resize(self.quoted.len(), 0);
        let mut ends = vec![0; self.columns + 1];
        let (result, .., found) = csv_core::Reader::new().read_record(&self.quoted, &mut self.unquoted, &mut ends);
        match result {
            csv_core::ReadRecordResult::Record => {}
            csv_core::ReadRecordResult::InputEmpty => return Err("it has a quote that is not closed"),
            _ => return Err(COLUMNS),
        }
        let mut from = 0;
        for end in &ends[..found] {
            self.cells.push(from..*end);
            from = *end;
        }
        Ok(())
    }
}

const COLUMNS: LineError = "it does not have the columns that the first line names";
