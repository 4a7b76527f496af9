//! [`Ticket`]: what a browser shows in place of a token once somebody has logged in with it.
//!
//! It says how long it is good for and is signed with the token itself: so nothing has to be kept here, it outlives a restart,
//! every node that has the token knows it, and a new token ends all of them.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::{access::Access, config::Tokens};

/// How long a login lasts, in seconds.
pub(crate) const LASTS: u64 = 12 * 60 * 60;

/// By how much the clocks of nodes that share a token may differ, in seconds.
const SKEW: u64 = 60;

/// A signed word on who somebody is.
#[derive(Debug)]
pub(crate) struct Ticket(String);

impl Ticket {
    /// A ticket for whoever has shown `token`, if it is one of ours.
    pub(crate) fn new(tokens: &Tokens, token: &[u8], now_s: u64) -> Option<Self> {
        if !tokens.knows(token) {
            return None;
        }
        let ends = now_s + LASTS;
        Some(Self(format!("{ends}.{}", hex(&signed(token, ends).finalize().into_bytes()))))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What somebody with this ticket may do, and until when, if it is a good one.
pub(crate) fn access(tokens: &Tokens, ticket: &str, now_s: u64) -> Option<(Access, u64)> {
    let (ends, signature) = ticket.split_once('.')?;
    let ends: u64 = ends.parse().ok().filter(|ends| (now_s..=now_s + LASTS + SKEW).contains(ends))?;
    let signature = unhex(signature)?;
    let is = |token: &Option<String>| {
        let token = token.as_ref()?;
        signed(token.as_bytes(), ends).verify_slice(&signature).ok()
    };
    let access = is(&tokens.admin).map(|()| Access::Admin).or_else(|| is(&tokens.usage).map(|()| Access::Usage))?;
    Some((access, ends))
}

fn signed(token: &[u8], ends: u64) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token).expect("a key of any length will do");
    mac.update(b"tidegate session until ");
    mac.update(&ends.to_be_bytes());
    mac
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{LASTS, SKEW, Ticket, access};
    use crate::{access::Access, config::Tokens};

    #[test]
    fn a_ticket_is_good_for_what_its_token_is_and_until_it_ends() {
        let tokens = Tokens { usage: Some("use-me-now".to_owned()), admin: Some("change-me-now".to_owned()) };
        let now = 1_000_000;
        for (token, granted) in [("use-me-now", Access::Usage), ("change-me-now", Access::Admin)] {
            let ticket = Ticket::new(&tokens, token.as_bytes(), now).unwrap();
            let of = |ticket: &str, now| access(&tokens, ticket, now).map(|(access, _)| access);
            assert_eq!(of(ticket.as_str(), now), Some(granted));
            assert_eq!(of(ticket.as_str(), now + LASTS), Some(granted));
            assert_eq!(of(ticket.as_str(), now + LASTS + 1), None, "it has ended");
            assert_eq!(of(ticket.as_str(), now - SKEW), Some(granted), "by a clock that is a little behind");
            assert_eq!(of(ticket.as_str(), now - SKEW - 1), None, "nobody was given one that lasts so long");
            let (ends, signature) = ticket.as_str().split_once('.').unwrap();
            for forged in
                [format!("{}.{signature}", ends.parse::<u64>().unwrap() - 1), format!("{ends}."), String::new()]
            {
                assert_eq!(of(&forged, now), None, "{forged}");
            }
            let changed = Tokens { usage: None, admin: Some("another-token".to_owned()) };
            assert_eq!(access(&changed, ticket.as_str(), now), None, "a new token ends what the old one began");
        }
        assert!(Ticket::new(&tokens, b"guessed-it", now).is_none());
        assert!(Ticket::new(&Tokens::default(), b"", now).is_none());
    }
}
