//! Keys for input that is too long for a key.

use sha2::{Digest as _, Sha256};
use tidegate::Key;

/// The key of parts that are too long together: their digest, after two parts with which no other key of several parts
/// begins. No two lists of parts have the same key.
///
/// If such input were refused, a client could bypass the limit with a long header, because a proxy can be configured to
/// pass on requests for which the service returns an error.
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
