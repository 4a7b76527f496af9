//! [`ClientKey`]: the key that identifies a client.

use std::{borrow::Cow, fmt, net::Ipv6Addr, str::FromStr};

use regex::bytes::Regex;

use super::{
    expression,
    fields::{Field, Fields, is_name},
};

/// Separates the parts of a key.
const SEPARATOR: u8 = 0x1f;
/// Precedes a separator within a part.
const ESCAPE: u8 = 0x1e;

/// The key that identifies a client: `client`, `ip`, `user`, `agent`, `status`, `header:x-api-key`, `field:tenant` (or `tenant`), `path`,
/// `path:2`, `regex:…`, or several of them, separated by `+` or a comma. `client` is the address in a log and the key in a trace.
#[derive(Debug, Clone)]
pub struct ClientKey {
    parts: Vec<KeyPart>,
    ipv6_prefix: u8,
}

#[derive(Debug, Clone)]
enum KeyPart {
    Field(Field),
    /// This number of path segments.
    Segments(usize),
    Capture(Regex),
}

impl ClientKey {
    /// Returns the key in a trace.
    pub fn key() -> Self {
        Self::new(vec![KeyPart::Field(Field::Key)])
    }

    /// Returns the address of the client.
    pub fn ip() -> Self {
        Self::new(vec![KeyPart::Field(Field::Ip)])
    }

    fn new(parts: Vec<KeyPart>) -> Self {
        Self { parts, ipv6_prefix: 64 }
    }

    /// Combines two keys. Requests of one client have the same value in each.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Counts IPv6 addresses by a prefix of 1 to 128 bits. By default 64, the prefix that one household gets.
    ///
    /// # Errors
    /// If the prefix is out of range.
    pub fn with_ipv6_prefix(mut self, bits: u8) -> Result<Self, ClientKeyError> {
        if !(1..=128).contains(&bits) {
            return Err(ClientKeyError::Prefix { bits });
        }
        self.ipv6_prefix = bits;
        Ok(self)
    }

    /// Returns the fields of the key.
    pub(super) fn fields(&self) -> Vec<Field> {
        let field = |part: &KeyPart| match part {
            KeyPart::Field(field) => Some(field.clone()),
            KeyPart::Segments(_) => Some(Field::Path),
            KeyPart::Capture(_) => None,
        };
        self.parts.iter().filter_map(field).collect()
    }

    /// Appends the key of a line to `key`. The fields from `first` on are those of [`fields`](Self::fields). Returns `false` if the line
    /// has no key.
    pub(super) fn write(&self, key: &mut Vec<u8>, line: &[u8], fields: &Fields, first: usize) -> bool {
        let mut number = first;
        let mut any = false;
        for (i, part) in self.parts.iter().enumerate() {
            let text = match part {
                KeyPart::Capture(regex) => captured(regex, line),
                KeyPart::Field(_) | KeyPart::Segments(_) => {
                    number += 1;
                    fields.get(number - 1, line)
                }
            };
            any |= text.is_some();
            let text = match part {
                KeyPart::Field(Field::Ip | Field::Client) => address(text.unwrap_or_default(), self.ipv6_prefix),
                KeyPart::Segments(count) => Cow::Borrowed(segments(text.unwrap_or_default(), *count)),
                _ => Cow::Borrowed(text.unwrap_or_default()),
            };
            if self.parts.len() == 1 {
                key.extend_from_slice(&text);
                continue;
            }
            if i > 0 {
                key.push(SEPARATOR);
            }
            for byte in text.iter() {
                if matches!(*byte, SEPARATOR | ESCAPE) {
                    key.push(ESCAPE);
                }
                key.push(*byte);
            }
        }
        any
    }
}

fn captured<'a>(regex: &Regex, line: &'a [u8]) -> Option<&'a [u8]> {
    let captures = regex.captures(line)?;
    let whole = if captures.len() == 1 { captures.get(0) } else { None };
    let text = captures.iter().skip(1).flatten().next().or(whole)?.as_bytes();
    (!text.is_empty()).then_some(text)
}

/// Returns the network of an IPv6 address. Returns an IPv4 address that is mapped into IPv6 as IPv4.
#[inline]
fn address(text: &[u8], bits: u8) -> Cow<'_, [u8]> {
    if memchr::memchr(b':', text).is_none() {
        return Cow::Borrowed(text);
    }
    let bare = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).unwrap_or(text);
    let parsed = std::str::from_utf8(bare).ok().and_then(|text| text.split('%').next()?.parse::<Ipv6Addr>().ok());
    match parsed {
        None => Cow::Borrowed(text),
        Some(v6) => Cow::Owned(match v6.to_ipv4_mapped() {
            Some(v4) => v4.to_string().into_bytes(),
            None if bits == 128 => v6.to_string().into_bytes(),
            None => {
                let network = Ipv6Addr::from_bits(v6.to_bits() & !(u128::MAX >> bits));
                format!("{network}/{bits}").into_bytes()
            }
        }),
    }
}

/// Returns the first segments of a path: `/a/b` of `/a/b/c` for two.
fn segments(path: &[u8], count: usize) -> &[u8] {
    let from = usize::from(path.starts_with(b"/"));
    let end = memchr::memchr_iter(b'/', &path[from..]).nth(count - 1);
    &path[..end.map_or(path.len(), |end| from + end)]
}

/// Formats a key for people: parts are joined with ` + `, and control characters are escaped.
pub fn display_key(key: &[u8]) -> String {
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    let mut bytes = key.iter();
    while let Some(byte) = bytes.next() {
        let byte = match *byte {
            SEPARATOR => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            ESCAPE => bytes.next().unwrap_or(byte),
            _ => byte,
        };
        part.push(*byte);
    }
    parts.push(part);
    let printed = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let part = |part: &Vec<u8>| match &part[..] {
        [] => "-".to_owned(),
        part => String::from_utf8_lossy(part).chars().map(printed).collect::<String>(),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(" + ")
}

/// Parses the name of a field.
pub(super) fn field(text: &str) -> Option<Field> {
    Some(match text.split_once(':') {
        None => match text {
            "client" => Field::Client,
            "ip" => Field::Ip,
            "user" => Field::User,
            "path" => Field::Path,
            "status" => Field::Status,
            "key" => Field::Key,
            "agent" | "user_agent" => Field::Header("user-agent".to_owned()),
            "referer" => Field::Header("referer".to_owned()),
            name if is_name(name) => Field::Named(name.to_owned()),
            _ => return None,
        },
        Some(("header", name)) if !name.is_empty() => Field::Header(name.to_owned()),
        Some(("field", name)) if !name.is_empty() => Field::Named(name.to_owned()),
        Some(_) => return None,
    })
}

impl FromStr for ClientKey {
    type Err = ClientKeyError;

    fn from_str(text: &str) -> Result<Self, ClientKeyError> {
        let unknown = || ClientKeyError::Unknown { text: text.chars().take(60).collect() };
        // An expression may contain `+` and commas, so it extends to the end.
        let (plain, expression) = match text.find("regex:") {
            Some(at) => (text[..at].trim_end_matches(['+', ',', ' ']), Some(&text[at..])),
            None => (text, None),
        };
        let plain = (expression.is_none() || !plain.is_empty()).then(|| plain.split(['+', ',']).map(str::trim));
        let texts: Vec<&str> = plain.into_iter().flatten().chain(expression).collect();
        let part = |text: &str| -> Result<KeyPart, ClientKeyError> {
            Ok(match text.split_once(':') {
                Some((_, "")) => return Err(unknown()),
                Some(("path", count)) => match count.parse() {
                    Ok(count @ 1..=64) => KeyPart::Segments(count),
                    _ => return Err(unknown()),
                },
                Some(("regex", pattern)) => KeyPart::Capture(
                    expression::compile(pattern).map_err(|error| ClientKeyError::Regex { error: Box::new(error) })?,
                ),
                _ => KeyPart::Field(field(text).ok_or_else(unknown)?),
            })
        };
        Ok(Self::new(texts.into_iter().map(part).collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.parts.iter().enumerate() {
            f.write_str(if i > 0 { " + " } else { "" })?;
            match part {
                KeyPart::Field(field) => f.write_str(&field.name())?,
                KeyPart::Segments(count) => write!(f, "path:{count}")?,
                KeyPart::Capture(regex) => write!(f, "regex:{regex}")?,
            }
        }
        Ok(())
    }
}

/// Error of parsing a [`ClientKey`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientKeyError {
    /// The text names no field.
    #[error(
        "`{text}` is not a field: use ip, user, agent, path, path:2, header:x-api-key, field:tenant, regex:…, or several as in ip,path:1"
    )]
    Unknown {
        /// The text.
        text: String,
    },
    /// The regular expression is invalid.
    #[error("the regular expression is invalid: {error}")]
    Regex {
        /// Cause.
        error: Box<regex::Error>,
    },
    /// The prefix is out of range.
    #[error("an IPv6 prefix of {bits} bits is out of range: use 1 to 128")]
    Prefix {
        /// The number of bits.
        bits: u8,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ClientKey, Fields, address, display_key, segments};

    fn key(text: &str, line: &str, values: &[&str]) -> Option<Vec<u8>> {
        let client_key: ClientKey = text.parse().expect("a client key");
        let mut fields = Fields::new(values.len());
        for (number, value) in values.iter().enumerate() {
            fields.text(number, value.as_bytes());
        }
        let mut key = Vec::new();
        client_key.write(&mut key, line.as_bytes(), &fields, 0).then_some(key)
    }

    #[test]
    fn ipv6_addresses_are_counted_by_their_network() {
        for (text, counted) in [
            ("203.0.113.7", "203.0.113.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2::6]", "2001:db8:1:2::/64"),
            ("::ffff:203.0.113.7", "203.0.113.7"),
            ("fe80::1%eth0", "fe80::/64"),
            ("not:an:address", "not:an:address"),
        ] {
            assert_eq!(address(text.as_bytes(), 64).as_ref(), counted.as_bytes());
        }
        assert_eq!(address(b"2001:db8::1", 128).as_ref(), b"2001:db8::1");
        assert_eq!(address(b"2001:db8:ffff::1", 32).as_ref(), b"2001:db8::/32");
    }

    #[test]
    fn keys_are_path_segments_and_regex_captures() {
        assert_eq!(segments(b"/api/v1/users", 2), b"/api/v1");
        assert_eq!(segments(b"/api", 2), b"/api");
        assert_eq!(segments(b"/", 1), b"/");
        assert_eq!(segments(b"", 1), b"");
        assert_eq!(key(r"regex:token=(\w+)", "GET /?token=abc&x", &[]).as_deref(), Some(&b"abc"[..]));
        assert_eq!(key(r"regex:a+b", "caab", &[]).as_deref(), Some(&b"aab"[..]));
        assert_eq!(key(r"regex:token=(\w+)", "GET /", &[]), None);
        assert_eq!(key(r"regex:token=(\w+)|key=(\w+)", "GET /?key=abc", &[]).as_deref(), Some(&b"abc"[..]));
        let both = key(r"ip+regex:(a+,b)", "caa,bd", &["1.2.3.4"]).expect("a key");
        assert_eq!(display_key(&both), "1.2.3.4 + aa,b");
    }

    #[test]
    fn several_parts_form_one_key_and_are_displayed_separately() {
        let joined = key("ip+user", "", &["1.2.3.4", "al\u{1f}ice"]).expect("a key");
        assert_eq!(display_key(&joined), "1.2.3.4 + al\\u{1f}ice");
        assert_eq!(display_key(&key("ip + user", "", &["1.2.3.4", ""]).expect("one is enough")), "1.2.3.4 + -");
        assert_eq!(key("ip,tenant", "", &["1.2.3.4", "t"]), key("ip+field:tenant", "", &["1.2.3.4", "t"]));
        assert_eq!(key("ip+user", "", &["", ""]), None);
        assert_eq!(display_key(b"a\nb\xff"), "a\\nb\u{fffd}");
    }

    #[test]
    fn an_invalid_client_key_is_an_error_with_a_hint() {
        for text in ["", "the ip", "path:0", "path:x", "header:", "ip+", "ip+what:ever", "regex:("] {
            let error = text.parse::<ClientKey>().expect_err(text).to_string();
            assert!(error.contains("header:x-api-key") || error.contains("expression"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn different_lists_of_parts_have_different_keys(a in "[a\u{1e}\u{1f}]{0,4}", b in "[a\u{1e}\u{1f}]{0,4}", c in "[a\u{1e}\u{1f}]{0,4}", d in "[a\u{1e}\u{1f}]{0,4}") {
            let (one, other) = (key("user+path", "", &[&a, &b]), key("user+path", "", &[&c, &d]));
            prop_assert_eq!(one == other, (a == c && b == d) || (one.is_none() && other.is_none()));
        }
    }
}
