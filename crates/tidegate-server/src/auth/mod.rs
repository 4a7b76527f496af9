//! Tokens and logins: `access` is what a token grants, `login` the cookie that a browser gets for a token, `logouts` the logins
//! that were ended, `wrong_tokens` the limit of wrong tokens for each address.

mod access;
mod login;
mod logouts;
mod wrong_tokens;

pub(crate) use self::{
    access::{Access, LoggedIn, WrongToken},
    login::{LIFETIME_S, Login, LoginCookie},
    logouts::Logouts,
    wrong_tokens::{TooManyWrongTokens, WrongTokens},
};
