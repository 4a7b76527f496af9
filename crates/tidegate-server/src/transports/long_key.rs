//! Keys of input that is longer than a key can be.

use sha2::{Digest as _, Sha256};
use tidegate::Key;

/// The key of parts that are too long together: their digest, after two parts that no other key of several parts begins with.
/// No two lists of parts have the same key.
///
/// If such input were refused, a long header would be a way past the limit: proxies can be told to let through what the
/// service has an error for.
pub(crate) fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Key<'static> {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let digest = digest.finalize();
    let parts: [&[u8]; 3] = [b"", b"sha256", &digest];
    Key::join(parts).expect("three short parts make a key")
}
