//! An override as bytes, as stored in its key and in the list; `scripts/override_record.lua` describes the layout.

use tidegate::{ActiveOverride, Key, Override, OverrideRule, Timestamp};

use crate::{
    error::Error,
    reply::{RawPolicy, Reader, garbled},
    wire::{encode_policy, put, put_bytes},
};

const LIMITS: u8 = 1;
const BAN: u8 = 2;
const EXEMPT: u8 = 3;

/// Encodes an override to set: the record from the end of the override on.
pub(crate) fn encode(key: &Key<'_>, by: &Override) -> Vec<u8> {
    let (kind, limits) = match by.rule() {
        OverrideRule::Limits(policy) => (LIMITS, encode_policy(policy)),
        OverrideRule::Ban => (BAN, Vec::new()),
        OverrideRule::Exempt => (EXEMPT, Vec::new()),
    };
    let mut bytes = Vec::with_capacity(16 + limits.len() + by.note().len() + key.as_bytes().len());
    // 0 means no end: an override never ends at that time.
    put(&mut bytes, by.end().map_or(0, Timestamp::as_micros), 7);
    bytes.push(kind);
    put_bytes(&mut bytes, &limits);
    put_bytes(&mut bytes, by.note().as_bytes());
    bytes.push(u8::from(key.is_joined()));
    put_bytes(&mut bytes, key.as_bytes());
    bytes
}

/// Completes the record of an override that was set at `since`.
pub(crate) fn record(encoded: &[u8], since: u64) -> Vec<u8> {
    let mut bytes = b"O\x01".to_vec();
    put(&mut bytes, since, 7);
    bytes.extend_from_slice(encoded);
    bytes
}

/// Decodes a record.
pub(crate) fn decode(record: &[u8]) -> Result<ActiveOverride, Error> {
    let mut reader = Reader::new(record);
    let [format, since, end, kind] = reader.numbers([2, 7, 7, 1])?;
    if format != u64::from(u16::from_be_bytes(*b"O\x01")) {
        return Err(Error::Garbled);
    }
    let limits = reader.bytes(2)?;
    let by = match u8::try_from(kind) {
        Ok(LIMITS) => Override::limits(RawPolicy::read(&mut Reader::new(limits))?.decode()?),
        Ok(BAN) => Override::ban(),
        Ok(EXEMPT) => Override::exempt(),
        _ => return Err(Error::Garbled),
    };
    let by = if end > 0 { by.until(Timestamp::from_micros(end)) } else { by };
    let note = std::str::from_utf8(reader.bytes(2)?).map_err(garbled)?;
    let by = by.with_note(note).map_err(garbled)?;
    let is_joined = reader.number(1)? == 1;
    let key = Key::new(reader.bytes(2)?).map_err(garbled)?;
    let key = if is_joined { join_again(&key)? } else { key.into_owned() };
    Ok(ActiveOverride::new(key, by, Timestamp::from_micros(since)))
}

/// Joins the parts of a joined key again, given its bytes.
fn join_again(key: &Key<'_>) -> Result<Key<'static>, Error> {
    let (mut reader, mut parts) = (Reader::new(key.as_bytes()), Vec::new());
    while !reader.is_at_end() {
        parts.push(reader.bytes(2)?);
    }
    Key::join(parts).map_err(garbled)
}

#[cfg(test)]
mod tests {
    use tidegate::{Algorithm, Buckets, Burst, Key, Override, OverrideRule, Policy, Timestamp};

    use super::{decode, encode, record};

    fn policy() -> Policy {
        let limits = ["10/1m", "100/1h"].map(|limit| limit.parse().expect("a limit"));
        Policy::unnamed(limits).expect("a policy")
    }

    #[test]
    fn decoding_a_record_returns_the_encoded_override() {
        let end = Timestamp::from_micros(1_700_000_000_000_000);
        let burst = |units| Burst::new(units).expect("in range");
        let overrides = [
            Override::ban(),
            Override::exempt().until(end),
            Override::limits(policy()).with_note("a \u{e4} in a note").expect("short"),
            Override::limits(policy().with_algorithm(Algorithm::SlidingCounter)).until(end),
            Override::limits(policy().with_algorithm(Algorithm::SlidingBuckets(Buckets::new(7).expect("in range")))),
            Override::limits(policy().with_algorithm(Algorithm::FixedWindow)),
            Override::limits(policy().with_algorithm(Algorithm::Gcra(None))),
            Override::limits(policy().with_bursts([burst(3), burst(5)]).expect("two bursts")),
        ];
        let keys = [
            Key::new("alice").expect("a key"),
            Key::join(["alice", "", "x"]).expect("a key"),
            Key::new(&[0xff, 0]).expect("a key"),
        ];
        for (by, key) in overrides.iter().flat_map(|by| keys.iter().map(move |key| (by, key))) {
            let read = decode(&record(&encode(key, by), 17)).expect("a record");
            assert_eq!((&read.key, read.since.as_micros()), (key, 17));
            assert_eq!((read.r#override.end(), read.r#override.note()), (by.end(), by.note()));
            match (read.r#override.rule(), by.rule()) {
                (OverrideRule::Limits(read), OverrideRule::Limits(by)) => {
                    assert_eq!((read.limits(), read.algorithm()), (by.limits(), by.algorithm()));
                    let capacities = |policy: &Policy| {
                        policy.limits().iter().map(|limit| policy.capacity(*limit)).collect::<Vec<_>>()
                    };
                    assert_eq!(capacities(read), capacities(by));
                }
                (OverrideRule::Ban, OverrideRule::Ban) | (OverrideRule::Exempt, OverrideRule::Exempt) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_truncated_record_is_an_error() {
        let whole = record(&encode(&Key::join(["a", "bc"]).expect("a key"), &Override::limits(policy())), 17);
        for length in 0..whole.len() {
            assert!(decode(&whole[..length]).is_err(), "{length}");
        }
    }
}
