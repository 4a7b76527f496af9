//! [`LoginCookie`]: the cookie that a browser sends in place of a token after a login.
//!
//! It contains its expiry time and is signed with the token itself. So it survives a restart, every node with the same
//! token accepts it, and a new token ends all logins. It has an id, by which a logout ends it ([`super::Logouts`]).

use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::{auth::Access, config::Tokens};

/// The lifetime of a login in seconds.
pub(crate) const LIFETIME_S: u64 = 12 * 60 * 60;

/// Maximum difference between the clocks of nodes that share a token, in seconds.
const SKEW_S: u64 = 60;

/// The value of a login cookie.
#[derive(Debug)]
pub(crate) struct LoginCookie(String);

/// The login that a cookie contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) id: u128,
    /// The end of the login, in seconds since the epoch.
    pub(crate) ends_s: u64,
}

impl LoginCookie {
    /// Creates a cookie for a login with `token`, if it is a configured token.
    pub(crate) fn new(tokens: &Tokens, token: &[u8], begin_s: u64) -> Option<Self> {
        if !tokens.contains(token) {
            return None;
        }
        let mut id = [0; 16];
        rustls::crypto::ring::default_provider().secure_random.fill(&mut id).ok()?;
        let login = Login { id: u128::from_be_bytes(id), ends_s: begin_s + LIFETIME_S };
        Some(Self(format!("{}.{:032x}.{}", login.ends_s, login.id, signature(token, login))))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the access that a valid cookie gives, and its login.
    pub(crate) fn access(tokens: &Tokens, cookie: &str, now_s: u64) -> Option<(Access, Login)> {
        let (login, sent) = parse(cookie, now_s)?;
        let is_signed_with = |token: &Option<String>| {
            let expected = token.as_ref().map(|token| signature(token.as_bytes(), login));
            expected.is_some_and(|expected| bool::from(expected.as_bytes().ct_eq(sent.as_bytes())))
        };
        let granted = [(&tokens.admin, Access::Admin), (&tokens.usage, Access::Usage)];
        granted.into_iter().find(|(token, _)| is_signed_with(token)).map(|(_, access)| (access, login))
    }

    /// Returns whether a cookie is well-formed and not expired, but not signed with a configured token. It may be a guess at a
    /// token.
    pub(crate) fn is_forged(tokens: &Tokens, cookie: &str, now_s: u64) -> bool {
        parse(cookie, now_s).is_some() && Self::access(tokens, cookie, now_s).is_none()
    }
}

/// Returns the login in a cookie, and its signature.
fn parse(cookie: &str, now_s: u64) -> Option<(Login, &str)> {
    let mut parts = cookie.splitn(3, '.');
    let ends_s: u64 = parts.next()?.parse().ok()?;
    if !(now_s..=now_s + LIFETIME_S + SKEW_S).contains(&ends_s) {
        return None;
    }
    let id = u128::from_str_radix(parts.next()?, 16).ok()?;
    Some((Login { id, ends_s }, parts.next()?))
}

/// Returns the signature of a login in hexadecimal digits.
fn signature(token: &[u8], login: Login) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(token).expect("a key of any length will do");
    mac.update(b"tidegate login until ");
    mac.update(&login.ends_s.to_be_bytes());
    mac.update(&login.id.to_be_bytes());
    format!("{:x}", mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::{LIFETIME_S, LoginCookie, SKEW_S};
    use crate::{auth::Access, config::Tokens};

    #[test]
    fn a_cookie_grants_the_access_of_its_token_until_it_expires() {
        let tokens = Tokens { usage: Some("use-me-now".to_owned()), admin: Some("change-me-now".to_owned()) };
        let now = 1_000_000;
        for (token, granted) in [("use-me-now", Access::Usage), ("change-me-now", Access::Admin)] {
            let cookie = LoginCookie::new(&tokens, token.as_bytes(), now).unwrap();
            let of = |cookie: &str, now| LoginCookie::access(&tokens, cookie, now).map(|(access, _)| access);
            assert_eq!(of(cookie.as_str(), now), Some(granted));
            assert_eq!(of(cookie.as_str(), now + LIFETIME_S), Some(granted));
            assert_eq!(of(cookie.as_str(), now + LIFETIME_S + 1), None, "it has ended");
            assert_eq!(of(cookie.as_str(), now - SKEW_S), Some(granted), "a clock may be a little behind");
            assert_eq!(of(cookie.as_str(), now - SKEW_S - 1), None, "no login lasts so long");
            assert!(!LoginCookie::is_forged(&tokens, cookie.as_str(), now));
            let another = LoginCookie::new(&tokens, token.as_bytes(), now).unwrap();
            assert_ne!(cookie.as_str(), another.as_str(), "each login has its own id");
            let [ends, id, signature] = cookie.as_str().split('.').collect::<Vec<_>>()[..] else { panic!() };
            let shorter = format!("{}.{id}.{signature}", ends.parse::<u64>().unwrap() - 1);
            let other = format!("{ends}.{}.{signature}", id.chars().rev().collect::<String>());
            for (forged, is_forged) in [
                (shorter, true),
                (other, true),
                (format!("{ends}.{id}."), true),
                (format!("{ends}.{id}"), false),
                (format!("{ends}."), false),
                (String::new(), false),
                (ends.repeat(1000), false),
            ] {
                assert_eq!(of(&forged, now), None, "{forged}");
                assert_eq!(LoginCookie::is_forged(&tokens, &forged, now), is_forged, "{forged}");
            }
            let changed = Tokens { usage: None, admin: Some("another-token".to_owned()) };
            assert_eq!(LoginCookie::access(&changed, cookie.as_str(), now), None, "a new token ends all logins");
        }
        assert!(LoginCookie::new(&tokens, b"guessed-it", now).is_none());
        assert!(LoginCookie::new(&Tokens::default(), b"", now).is_none());
    }
}
