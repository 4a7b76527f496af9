//! [`Ticket`]: what a browser shows in place of a token once somebody has logged in with it.
//!
//! It contains its expiry time and is signed with the token itself. So it survives a restart, every node with the same
//! token accepts it, and a new token ends all tickets. It has an id, by which a logout ends it ([`crate::logouts`]).

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

/// The login that a ticket stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) id: [u8; 16],
    /// When it ends, in seconds since the epoch.
    pub(crate) ends_s: u64,
}

impl Ticket {
    /// A ticket for whoever has shown `token`, if it is one of ours.
    pub(crate) fn new(tokens: &Tokens, token: &[u8], begin_s: u64) -> Option<Self> {
        if !tokens.knows(token) {
            return None;
        }
        let mut login = Login { id: [0; 16], ends_s: begin_s + LASTS };
        rustls::crypto::ring::default_provider().secure_random.fill(&mut login.id).ok()?;
        let signature = signed(token, login).finalize().into_bytes();
        Some(Self(format!("{}.{}.{}", login.ends_s, hex(&login.id), hex(&signature))))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The access that a valid ticket gives, and its login.
pub(crate) fn access(tokens: &Tokens, ticket: &str, now_s: u64) -> Option<(Access, Login)> {
    let (login, signature) = read(ticket, now_s)?;
    let is = |token: &Option<String>| {
        let token = token.as_ref()?;
        signed(token.as_bytes(), login).verify_slice(&signature).ok()
    };
    let access = is(&tokens.admin).map(|()| Access::Admin).or_else(|| is(&tokens.usage).map(|()| Access::Usage))?;
    Some((access, login))
}

/// Whether a ticket is well-formed and not expired, but not signed with one of our tokens. It may be a guess at a
/// token.
pub(crate) fn is_forged(tokens: &Tokens, ticket: &str, now_s: u64) -> bool {
    read(ticket, now_s).is_some() && access(tokens, ticket, now_s).is_none()
}

/// The login in a ticket, and its signature.
fn read(ticket: &str, now_s: u64) -> Option<(Login, Vec<u8>)> {
    let mut parts = ticket.splitn(3, '.');
    let ends_s: u64 = parts.next()?.parse().ok()?;
    if !(now_s..=now_s + LASTS + SKEW).contains(&ends_s) {
        return None;
    }
    let id = unhex(parts.next()?)?.try_into().ok()?;
    Some((Login { id, ends_s }, unhex(parts.next()?)?))
}

fn signed(token: &[u8], login: Login) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token).expect("a key of any length will do");
    mac.update(b"tidegate login until ");
    mac.update(&login.ends_s.to_be_bytes());
    mac.update(&login.id);
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
    use super::{LASTS, SKEW, Ticket, access, is_forged};
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
            assert!(!is_forged(&tokens, ticket.as_str(), now));
            let another = Ticket::new(&tokens, token.as_bytes(), now).unwrap();
            assert_ne!(ticket.as_str(), another.as_str(), "each login has an id of its own");
            let [ends, id, signature] = ticket.as_str().split('.').collect::<Vec<_>>()[..] else { panic!() };
            let shorter = format!("{}.{id}.{signature}", ends.parse::<u64>().unwrap() - 1);
            let other = format!("{ends}.{}.{signature}", id.chars().rev().collect::<String>());
            for (forged, could_be) in [
                (shorter, true),
                (other, true),
                (format!("{ends}.{id}."), true),
                (format!("{ends}.{id}"), false),
                (format!("{ends}."), false),
                (String::new(), false),
                (ends.repeat(1000), false),
            ] {
                assert_eq!(of(&forged, now), None, "{forged}");
                assert_eq!(is_forged(&tokens, &forged, now), could_be, "{forged}");
            }
            let changed = Tokens { usage: None, admin: Some("another-token".to_owned()) };
            assert_eq!(access(&changed, ticket.as_str(), now), None, "a new token ends what the old one began");
        }
        assert!(Ticket::new(&tokens, b"guessed-it", now).is_none());
        assert!(Ticket::new(&Tokens::default(), b"", now).is_none());
    }
}
