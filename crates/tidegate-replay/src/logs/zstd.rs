//! [`ZstdReader`]: decodes every frame of a zstd file.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

/// Largest window that is accepted: the one of `zstd --long` and `zstd --ultra -22`.
const MAX_WINDOW: u64 = 1 << 27;

/// An empty last block and a checksum.
const END_OF_FRAME: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// Decodes the frames of `source`, one after the other. Verifies checksums and ignores skippable frames.
pub(super) struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    error: Option<io::Error>,
}

impl<R: BufRead> ZstdReader<R> {
    pub(super) fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        Self { source, decoder, error: None }
    }

    /// Decodes blocks until the decoder has bytes to read, or the source ends.
    fn decode(&mut self) -> io::Result<()> {
        while self.decoder.can_collect() == 0 {
            if !self.decoder.is_finished() {
                let decoded = self.decoder.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1));
                decoded.map_err(io::Error::other)?;
                continue;
            }
            let checksum = self.decoder.get_checksum_from_data();
            if checksum.is_some() && checksum != self.decoder.get_calculated_checksum() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a zstd checksum does not match"));
            }
            if self.source.fill_buf()?.is_empty() {
                return Ok(());
            }
            match self.decoder.reset(&mut self.source) {
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                started => started.map_err(io::Error::other)?,
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.error.is_none()
            && let Err(error) = self.decode()
        {
            self.error = Some(error);
            // The decoder retains one window until the frame ends. Ending it here returns the bytes before the error.
            let _ = self.decoder.decode_blocks(&END_OF_FRAME[..], BlockDecodingStrategy::UptoBlocks(1));
        }
        match self.decoder.read(buffer)? {
            0 => self.error.take().map_or(Ok(0), Err),
            bytes => Ok(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::ZstdReader;

    /// Everything that can be read, and the error that ended the reading.
    fn decoded(bytes: &[u8]) -> (Vec<u8>, Option<String>) {
        let mut out = Vec::new();
        let error = ZstdReader::new(bytes).read_to_end(&mut out).err();
        (out, error.map(|error| error.to_string()))
    }

    fn lines(count: u32) -> Vec<u8> {
        (0..count).flat_map(|number| format!("line {number} of a log\n").into_bytes()).collect()
    }

    #[test]
    fn all_frames_are_read_and_skippable_frames_are_ignored() {
        let frame = compress_to_vec(&lines(20_000)[..], CompressionLevel::Fastest);
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let file = [&frame[..], &skippable, &frame, &frame].concat();
        assert_eq!(decoded(&file), (lines(20_000).repeat(3), None));
        assert_eq!(decoded(b""), (vec![], None));
    }

    #[test]
    fn the_bytes_before_an_error_are_returned_before_the_error() {
        let text = lines(40_000);
        let frame = compress_to_vec(&text[..], CompressionLevel::Fastest);
        for cut in [frame.len() / 2, frame.len() - 2] {
            let (out, error) = decoded(&frame[..cut]);
            assert!(error.is_some() && out.len() > text.len() / 4 && text.starts_with(&out), "{} {error:?}", out.len());
        }
        let (out, error) = decoded(&[&frame[..], b"no frame"].concat());
        assert!(error.is_some() && out == text);
    }
}
