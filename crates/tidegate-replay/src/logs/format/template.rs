//! [`Template`]: a custom nginx `log_format`, such as `$remote_addr [$time_iso8601] "$request" $request_time`.

use std::ops::Range;

use super::LineError;
use crate::logs::{
    duration,
    fields::{Field, FieldColumn, Fields, first_of, snake_case, time_names},
    time,
};

#[derive(Debug)]
pub(in crate::logs) struct Template {
    /// Text before the first variable.
    before: Vec<u8>,
    /// Name of each variable, and the text after it.
    variables: Vec<(String, Vec<u8>)>,
    time: usize,
    /// Variable of each wanted field.
    wanted: Vec<FieldColumn>,
    found: Vec<Range<usize>>,
    /// Unit of the duration, by the name of its variable.
    duration_unit: Option<u64>,
}

impl Template {
    /// Creates a reader of a `log_format`: its text, or the directive of an nginx configuration.
    pub(super) fn new(text: &str, wanted: &[Field]) -> Result<Self, String> {
        let (before, variables) = pieces(&directive_text(text))?;
        let names: Vec<&str> = variables.iter().map(|(name, _)| name.as_str()).collect();
        let time = first_of(&time_names(), &names).ok_or("it has no time: add $msec, $time_iso8601 or $time_local")?;
        let variable = |field: &Field| {
            let found = match field {
                Field::Header(name) => Field::Named(format!("http_{}", snake_case(name))).column(&names),
                Field::Named(name) => Field::Named(name.trim_start_matches('$').to_owned()).column(&names),
                Field::Key | Field::Cost => None,
                Field::Ip | Field::Client | Field::User | Field::Path | Field::Status | Field::Duration(_) => {
                    field.column(&names)
                }
            };
            found.ok_or_else(|| format!("it has no {}: it has ${}", field.name(), names.join(", $")))
        };
        let duration_unit = duration::unit_of_column(wanted, &names);
        let wanted = wanted.iter().map(variable).collect::<Result<_, _>>()?;
        Ok(Self { before, found: vec![0..0; variables.len()], variables, time, wanted, duration_unit })
    }

    pub(super) fn read(&mut self, line: &[u8], fields: &mut Fields) -> Result<u64, LineError> {
        if !line.starts_with(&self.before) {
            return Err("it does not start like the log format");
        }
        let mut at = self.before.len();
        let last = self.variables.len() - 1;
        for (number, ((_, after), found)) in self.variables.iter().zip(&mut self.found).enumerate() {
            let rest = &line[at..];
            let len = if number == last {
                // The last variable extends to the text that ends the line.
                rest.len().checked_sub(after.len()).filter(|len| &rest[*len..] == after.as_slice())
            } else {
                end_of(rest, after)
            };
            let len = len.ok_or("it does not match the log format")?;
            *found = at..at + len;
            at += len + after.len();
        }
        let time_us = time::any(&line[self.found[self.time].clone()]).ok_or("its time is invalid")?;
        fields.in_line(line, &self.wanted, &self.found);
        fields.unit = self.duration_unit;
        Ok(time_us)
    }
}

/// Finds the end of a variable that `after` follows. An escaped quote does not end it.
fn end_of(text: &[u8], after: &[u8]) -> Option<usize> {
    memchr::memmem::find_iter(text, after).find(|at| {
        let slashes = text[..*at].iter().rev().take_while(|byte| **byte == b'\\').count();
        after[0] != b'"' || slashes % 2 == 0
    })
}

/// Returns the text of a directive `log_format name '…' '…';`.
fn directive_text(text: &str) -> String {
    let text = text.trim();
    let Some(rest) = text.strip_prefix("log_format") else { return text.to_owned() };
    let rest = rest.trim_end_matches(';');
    let mut out = String::new();
    let mut quote = None;
    for c in rest.chars() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => out.push(c),
            (None, _) => {}
        }
    }
    out
}

type Pieces = (Vec<u8>, Vec<(String, Vec<u8>)>);

fn pieces(text: &str) -> Result<Pieces, String> {
    let mut parts = text.split('$');
    let before = parts.next().unwrap_or_default().as_bytes().to_vec();
    let mut variables: Vec<(String, Vec<u8>)> = Vec::new();
    for part in parts {
        let (name, after) = match part.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or("a `${` is not closed by `}`")?,
            None => part.split_at(part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len())),
        };
        if name.is_empty() {
            return Err("no name follows a `$`".to_owned());
        }
        if let Some((previous, gap)) = variables.last()
            && gap.is_empty()
        {
            return Err(format!("no text separates ${previous} and ${name}"));
        }
        variables.push((name.to_owned(), after.as_bytes().to_vec()));
    }
    if variables.is_empty() {
        return Err(
            "it has no variables: write it as nginx does, as in `$remote_addr [$time_local] \"$request\"`".into()
        );
    }
    Ok((before, variables))
}

#[cfg(test)]
mod tests {
    use super::Template;
    use crate::logs::fields::{Field, Fields};

    fn read(format: &str, line: &str, field: Field) -> Result<Option<String>, String> {
        let mut template = Template::new(format, &[field])?;
        let mut fields = Fields::new(1);
        template.read(line.as_bytes(), &mut fields).map_err(str::to_owned)?;
        Ok(fields.get(0, line.as_bytes()).map(|text| String::from_utf8_lossy(text).into_owned()))
    }

    const FORMAT: &str =
        r#"$remote_addr - $remote_user [$time_local] "$request" ${status}x "$http_x_api_key" "$http_user_agent""#;
    const LINE: &str =
        r#"1.2.3.4 - john doe [17/May/2015:10:05:03 +0000] "GET /a\"b?c HTTP/1.1" 200x "key" "An "agent"""#;

    #[test]
    fn variables_are_the_texts_between_the_literals() {
        let found = |field| read(FORMAT, LINE, field).expect("a matching line");
        assert_eq!(found(Field::Ip).as_deref(), Some("1.2.3.4"));
        assert_eq!(found(Field::User).as_deref(), Some("john doe"));
        assert_eq!(found(Field::Path).as_deref(), Some(r#"/a\"b"#));
        assert_eq!(found(Field::Named("$status".into())).as_deref(), Some("200"));
        assert_eq!(found(Field::Header("X-Api-Key".into())).as_deref(), Some("key"));
        assert_eq!(found(Field::Header("user-agent".into())).as_deref(), Some("An \"agent\""));
        let wrapped = format!("log_format main escape=default '{}'\n  '{}';", &FORMAT[..20], &FORMAT[20..]);
        assert_eq!(read(&wrapped, LINE, Field::Ip), Ok(Some("1.2.3.4".to_owned())));
    }

    #[test]
    fn an_invalid_format_or_line_is_an_error() {
        for (format, hint) in [
            ("$remote_addr", "$msec"),
            ("$remote_addr$msec", "no text separates"),
            ("plain", "no variables"),
            ("$msec ${x", "not closed"),
            ("$msec $ x", "no name"),
            ("$msec", "it has $msec"),
        ] {
            let error = read(format, "", Field::Ip).expect_err(format);
            assert!(error.contains(hint), "{error}");
        }
        for line in ["", "1.2.3.4", &LINE[..60], &LINE[1..], "x - y [then] \"r\" 1x \"\" \"\""] {
            let read = read(FORMAT, line, Field::User);
            assert!(read.is_err() || line == &LINE[1..], "{line}: {read:?}");
        }
    }
}
