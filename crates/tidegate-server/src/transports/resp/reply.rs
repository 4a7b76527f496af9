//! [`Replies`]: writes replies in both versions of the protocol.
//!
//! The crate redis-protocol encodes trees of frames, with another type for each version and maps without an order. A decision is six
//! numbers, so this writes directly into one buffer for all replies of a batch.

/// Replies that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    bytes: Vec<u8>,
    /// Whether the caller uses the third version.
    pub(crate) resp3: bool,
    /// Number of error replies since the last [`Replies::take_errors`].
    errors: u64,
}

/// Capacity that an empty buffer may keep.
const KEPT: usize = 64 << 10;

impl Replies {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all replies after they are sent.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
    }

    /// Removes all replies after the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    #[inline]
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    #[inline]
    fn line(&mut self, kind: u8, number: impl itoa::Integer) {
        self.bytes.push(kind);
        self.raw(itoa::Buffer::new().format(number).as_bytes());
        self.raw(b"\r\n");
    }

    #[inline]
    pub(crate) fn integer(&mut self, number: impl itoa::Integer) {
        self.line(b':', number);
    }

    pub(crate) fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.raw(text.as_bytes());
        self.raw(b"\r\n");
    }

    pub(crate) fn ok(&mut self) {
        self.simple("OK");
    }

    /// Writes an error, which begins with its code. It may contain input of the caller, so control characters are replaced.
    pub(crate) fn error(&mut self, text: &str) {
        self.errors += 1;
        self.bytes.push(b'-');
        self.bytes.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
        self.raw(b"\r\n");
    }

    pub(crate) fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.line(b'$', bytes.len());
        self.raw(bytes);
        self.raw(b"\r\n");
    }

    /// Writes a text of several lines for people.
    pub(crate) fn text(&mut self, text: &str) {
        if self.resp3 {
            self.line(b'=', text.len() + 4);
            self.raw(b"txt:");
            self.raw(text.as_bytes());
            self.raw(b"\r\n");
        } else {
            self.bulk(text);
        }
    }

    pub(crate) fn array(&mut self, len: usize) {
        self.line(b'*', len);
    }

    /// Writes the start of a map. Its names and values follow in turn.
    pub(crate) fn map(&mut self, pairs: usize) {
        if self.resp3 { self.line(b'%', pairs) } else { self.array(pairs * 2) }
    }

    /// Writes the start of a set.
    pub(crate) fn set(&mut self, len: usize) {
        self.line(if self.resp3 { b'~' } else { b'*' }, len);
    }

    /// Writes a name and its value.
    pub(crate) fn named(&mut self, name: &str, value: impl FnOnce(&mut Self)) {
        self.bulk(name);
        value(self);
    }

    /// Returns the number of error replies since the last call.
    pub(crate) fn take_errors(&mut self) -> u64 {
        std::mem::take(&mut self.errors)
    }

    pub(crate) fn null(&mut self) {
        self.raw(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    pub(crate) fn boolean(&mut self, value: bool) {
        match (self.resp3, value) {
            (true, true) => self.raw(b"#t\r\n"),
            (true, false) => self.raw(b"#f\r\n"),
            (false, _) => self.integer(u8::from(value)),
        }
    }

    pub(crate) fn optional(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.integer(number),
            None => self.null(),
        }
    }
}
