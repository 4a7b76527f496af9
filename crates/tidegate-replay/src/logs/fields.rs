//! [`Field`]: what is wanted of a line. [`Fields`]: what was found, without a copy where the line has it as it is.

use std::ops::Range;

/// Something that a line may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    /// The client's address.
    Ip,
    /// Who is logged in.
    User,
    /// The path that was asked for, without its query.
    Path,
    /// A header of the request.
    Header(String),
    /// Whatever the log calls so.
    Named(String),
    /// The key of a trace.
    Key,
    /// The cost in a trace.
    Cost,
}

impl Field {
    /// How a person asks for it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Ip => "ip".to_owned(),
            Self::User => "user".to_owned(),
            Self::Path => "path".to_owned(),
            Self::Header(name) => format!("header:{name}"),
            Self::Named(name) => format!("field:{name}"),
            Self::Key => "key".to_owned(),
            Self::Cost => "cost".to_owned(),
        }
    }
}

/// The fields found in one line, by the numbers they are wanted under.
#[derive(Debug, Default)]
pub(super) struct Fields {
    places: Vec<Place>,
    /// Texts that are in no line as they are: unescaped ones.
    scratch: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Place {
    Missing,
    Line(Range<usize>),
    Scratch(Range<usize>),
}

impl Fields {
    pub(super) fn new(wanted: usize) -> Self {
        Self { places: vec![Place::Missing; wanted], scratch: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.places.fill(Place::Missing);
        self.scratch.clear();
    }

    /// The field is this part of the line; `-` says that there is none.
    pub(super) fn in_line(&mut self, number: usize, line: &[u8], range: Range<usize>) {
        self.places[number] = if &line[range.clone()] == b"-" { Place::Missing } else { Place::Line(range) };
    }

    /// The field is this text.
    pub(super) fn text(&mut self, number: usize, text: &[u8]) {
        let from = self.scratch.len();
        self.scratch.extend_from_slice(text);
        self.places[number] = Place::Scratch(from..self.scratch.len());
    }

    /// The field of this number; an empty one is none.
    #[inline]
    pub(super) fn get<'a>(&'a self, number: usize, line: &'a [u8]) -> Option<&'a [u8]> {
        let text = match &self.places[number] {
            Place::Missing => return None,
            Place::Line(range) => &line[range.clone()],
            Place::Scratch(range) => &self.scratch[range.clone()],
        };
        (!text.is_empty()).then_some(text)
    }
}

/// The path in what was asked for: `/search` in `GET /search?q=1 HTTP/1.1`, in `/search?q=1` and in
/// `http://host/search`.
pub(super) fn path_in(request: &[u8]) -> Range<usize> {
    let from = match memchr::memchr(b' ', request) {
        Some(space) if !request.starts_with(b"/") => space + 1,
        _ => 0,
    };
    let target = &request[from..];
    let target = &target[..memchr::memchr(b' ', target).unwrap_or(target.len())];
    let host = match memchr::memmem::find(target, b"://") {
        Some(scheme) if !target.starts_with(b"/") => {
            scheme + 3 + memchr::memchr(b'/', &target[scheme + 3..]).unwrap_or(target.len() - scheme - 3)
        }
        _ => 0,
    };
    let end = memchr::memchr2(b'?', b'#', target).unwrap_or(target.len()).max(host);
    from + host..from + end
}

#[cfg(test)]
mod tests {
    use super::path_in;

    #[test]
    fn finds_the_path_however_it_is_asked_for() {
        for (request, path) in [
            ("GET /search?q=1 HTTP/1.1", "/search"),
            ("/search?q=1#x", "/search"),
            ("GET http://host/a/b?c HTTP/1.0", "/a/b"),
            ("GET http://host HTTP/1.0", ""),
            ("OPTIONS * HTTP/1.1", "*"),
            ("GET /a", "/a"),
            ("\\x16\\x03", "\\x16\\x03"),
            ("", ""),
            ("GET /x?u=http://y/z HTTP/1.1", "/x"),
        ] {
            assert_eq!(&request[path_in(request.as_bytes())], path, "{request}");
        }
    }
}
