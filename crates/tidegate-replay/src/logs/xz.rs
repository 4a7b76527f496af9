//! Decodes every stream of an xz file.

use std::io::{self, Read};

use lzma_rust2::XzReader;

/// Memory for a dictionary, in KiB. `xz -9` needs 64 MiB. A file can demand 4 GiB.
const MAX_MEMORY_KIB: u32 = 130 << 10;

/// Returns the decoded bytes of all streams of `source`. Verifies checksums. A file that demands too much memory is an error.
pub(super) fn reader(source: impl Read) -> impl Read {
    XzSource(XzReader::new_mem_limit(source, true, MAX_MEMORY_KIB))
}

/// Describes the errors of the decoder in words that name the format.
struct XzSource<R: Read>(XzReader<R>);

impl<R: Read> Read for XzSource<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::Interrupted => return error,
                io::ErrorKind::OutOfMemory => {
                    "its xz dictionary is larger than 128 MiB: compress it with `xz -9`".to_owned()
                }
                io::ErrorKind::UnexpectedEof => "the xz data ends early: the file is truncated".to_owned(),
                _ => format!("the xz data is damaged ({error})"),
            };
            io::Error::new(error.kind(), why)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use lzma_rust2::{XzOptions, XzWriter};

    use super::reader;

    fn lines(count: u32) -> Vec<u8> {
        let line = |number: u64| format!("line {:016x}\n", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes();
        (0..count.into()).flat_map(line).collect()
    }

    fn compressed(bytes: &[u8], dictionary: u32) -> Vec<u8> {
        let mut options = XzOptions::with_preset(0);
        options.lzma_options.dict_size = dictionary;
        let mut writer = XzWriter::new(Vec::new(), options).expect("valid options");
        writer.write_all(bytes).expect("it is compressed");
        writer.finish().expect("it is compressed")
    }

    /// Returns everything that can be read, and the error that ended the reading.
    fn decoded(bytes: &[u8]) -> (Vec<u8>, Option<String>) {
        let mut out = Vec::new();
        let error = reader(bytes).read_to_end(&mut out).err();
        (out, error.map(|error| error.to_string()))
    }

    #[test]
    fn all_streams_are_read() {
        let stream = compressed(&lines(2_000), 8 << 20);
        let padding = [0; 8];
        assert_eq!(decoded(&[&stream[..], &padding, &stream, &stream].concat()), (lines(2_000).repeat(3), None));
    }

    #[test]
    fn the_bytes_before_an_error_are_returned_before_the_error() {
        // The decoder reads chunks of up to 64 KiB. Bytes of an incomplete chunk are lost.
        let text = lines(20_000);
        let stream = compressed(&text, 1 << 16);
        let (out, error) = decoded(&stream[..stream.len() / 2]);
        assert!(out.len() > text.len() / 4 && text.starts_with(&out), "{}", out.len());
        assert_eq!(error.as_deref(), Some("the xz data ends early: the file is truncated"));
        let mut damaged = stream.clone();
        damaged[stream.len() / 2] ^= 0x40;
        let (_, error) = decoded(&damaged);
        assert!(error.as_ref().is_some_and(|error| error.contains("damaged")), "{error:?}");
        let (out, error) = decoded(&[&stream[..], b"no stream"].concat());
        assert!(error.is_some() && out == text);
    }

    #[test]
    fn a_file_can_not_demand_unbounded_memory() {
        let stream = compressed(&lines(10), 8 << 20);
        // The dictionary's size in the block header: 40 is 4 GiB. A checksum protects the header.
        let mut hostile = stream.clone();
        let at = 12 + 4;
        assert_eq!(hostile[at - 2..at], [0x21, 1], "the properties of LZMA2");
        hostile[at] = 40;
        let header_len = (usize::from(hostile[12]) + 1) * 4;
        let mut crc = flate2::Crc::new();
        crc.update(&hostile[12..12 + header_len - 4]);
        hostile[12 + header_len - 4..12 + header_len].copy_from_slice(&crc.sum().to_le_bytes());
        let (out, error) = decoded(&hostile);
        assert!(out.is_empty() && error.as_ref().is_some_and(|error| error.contains("128 MiB")), "{error:?}");
    }
}
