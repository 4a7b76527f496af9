//! Times as logs write them, to microseconds since the epoch.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

const LATEST: u64 = tidegate::Timestamp::MAX.as_micros();

/// How long `17/May/2015:10:05:03 +0000` is.
pub(super) const CLF_LEN: usize = 26;

/// Reads times such as `17/May/2015:10:05:03 +0000`. Neighbouring lines mostly have the same, so the last one is remembered.
#[derive(Debug, Default)]
pub(super) struct ClfTimes {
    text: [u8; CLF_LEN],
    time_us: u64,
}

impl ClfTimes {
    #[inline]
    pub(super) fn read(&mut self, text: &[u8; CLF_LEN]) -> Option<u64> {
        if *text != self.text {
            (self.time_us, self.text) = (clf(text)?, *text);
        }
        Some(self.time_us)
    }
}

fn clf(text: &[u8; CLF_LEN]) -> Option<u64> {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let number = |from: usize, to: usize| -> Option<i16> {
        let digits = &text[from..to];
        let all = digits.iter().all(u8::is_ascii_digit);
        all.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0')))
    };
    let small = |from: usize| number(from, from + 2).and_then(|number| i8::try_from(number).ok());
    let marks = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':'), (20, b' ')];
    if marks.iter().any(|(at, mark)| text[*at] != *mark) {
        return None;
    }
    let month = MONTHS.chunks(3).position(|month| month.eq_ignore_ascii_case(&text[3..6]))?;
    // A leap second is told as the second before it.
    let second = small(18)?.min(if small(18)? == 60 { 59 } else { i8::MAX });
    let civil =
        DateTime::new(number(7, 11)?, i8::try_from(month + 1).ok()?, small(0)?, small(12)?, small(15)?, second, 0)
            .ok()?;
    let (hours, minutes) = (i64::from(small(22)?), i64::from(small(24)?));
    let east = match text[21] {
        b'+' => hours * 3600 + minutes * 60,
        b'-' => -hours * 3600 - minutes * 60,
        _ => return None,
    };
    in_range(i128::from(seconds(civil)? - east) * 1_000_000)
}

fn seconds(civil: DateTime) -> Option<i64> {
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// A time in any of the ways that logs have: as access logs do, as RFC 3339 (without a zone it is UTC), or as a number of
/// seconds, milliseconds, microseconds or nanoseconds since the epoch, whichever it can be.
pub(super) fn any(text: &[u8]) -> Option<u64> {
    if let Ok(text) = <&[u8; CLF_LEN]>::try_from(text)
        && let Some(time) = clf(text)
    {
        return Some(time);
    }
    if let Some(time) = number(text) {
        return Some(time);
    }
    let text = std::str::from_utf8(text).ok()?.trim();
    let micros = match text.parse::<Timestamp>() {
        Ok(time) => time.as_microsecond(),
        Err(_) => text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond(),
    };
    in_range(micros.into())
}

/// A count of microseconds since the epoch, as traces have it.
pub(super) fn micros(text: &[u8]) -> Option<u64> {
    in_range(digits(text)?.into())
}

/// Seconds since the epoch, with a fraction or not; or, if that would be too far in the future, smaller units.
fn number(text: &[u8]) -> Option<u64> {
    let point = memchr::memchr(b'.', text).unwrap_or(text.len());
    let (whole, fraction) = (digits(&text[..point])?, text.get(point + 1..).unwrap_or(&[]));
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (scale, places): (u64, usize) = match whole {
        0..100_000_000_000 => (1_000_000, 6),
        100_000_000_000..100_000_000_000_000 => (1_000, 3),
        100_000_000_000_000..100_000_000_000_000_000 => (1, 0),
        _ => return in_range(i128::from(whole / 1_000)),
    };
    let mut below = 0;
    for place in 0..places {
        below = below * 10 + fraction.get(place).map_or(0, |digit| u64::from(digit - b'0'));
    }
    in_range(i128::from(whole) * i128::from(scale) + i128::from(below))
}

/// A whole number.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    let good = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    if good { text.iter().try_fold(0, add) } else { None }
}

fn in_range(micros: i128) -> Option<u64> {
    u64::try_from(micros).ok().filter(|micros| *micros <= LATEST)
}

#[cfg(test)]
mod tests {
    use super::{ClfTimes, any, micros};

    const SECOND: u64 = 1_431_857_103;

    #[test]
    fn the_ways_of_logs_mean_the_same_moment() {
        for text in [
            "17/May/2015:10:05:03 +0000",
            "17/May/2015:15:50:03 +0545",
            "16/May/2015:22:05:03 -1200",
            "17/may/2015:10:05:03 +0000",
            "2015-05-17T10:05:03Z",
            "2015-05-17T12:05:03+02:00",
            "2015-05-17 10:05:03",
            "1431857103",
            "1431857103.000",
            "1431857103000",
            "1431857103000000",
            "1431857103000000000",
        ] {
            assert_eq!(any(text.as_bytes()), Some(SECOND * 1_000_000), "{text}");
        }
        assert_eq!(any(b"1431857103.1234567"), Some(SECOND * 1_000_000 + 123_456));
        assert_eq!(any(b"2015-05-17T10:05:03.25Z"), Some(SECOND * 1_000_000 + 250_000));
        assert_eq!(any(b"31/Dec/2016:23:59:60 +0000"), any(b"31/Dec/2016:23:59:59 +0000"), "a leap second");
        assert_eq!(micros(b"12"), Some(12));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "-",
            "yesterday",
            "31/Feb/2015:10:05:03 +0000",
            "17/Mai/2015:10:05:03 +0000",
            "17/May/2015:24:05:03 +0000",
            "17/May/1815:10:05:03 +0000",
            "17/May/2015 10:05:03 +0000",
            "17/May/2015:10:05:03  0000",
            "-5",
            "1e9",
            "1431857103.12x",
            "99999999999999999999999",
            "9999-05-17T10:05:03Z",
        ] {
            assert_eq!(any(text.as_bytes()), None, "{text}");
        }
        assert_eq!(micros(b"9000000000000001"), None);
    }

    #[test]
    fn a_remembered_time_is_not_taken_for_another() {
        let mut times = ClfTimes::default();
        assert_eq!(times.read(b"17/May/2015:10:05:03 +0000"), Some(SECOND * 1_000_000));
        assert_eq!(times.read(b"17/May/2015:10:05:03 +0000"), Some(SECOND * 1_000_000));
        assert_eq!(times.read(b"17/May/2015:10:05:04 +0000"), Some((SECOND + 1) * 1_000_000));
        assert_eq!(times.read(b"17/May/2015:10:05:04 +00x0"), None);
        assert_eq!(times.read(b"17/May/2015:10:05:04 +0000"), Some((SECOND + 1) * 1_000_000));
    }
}
