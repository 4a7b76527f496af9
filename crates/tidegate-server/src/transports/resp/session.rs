//! [`Session`]: the state of a connection, and the commands that change or show it.

use std::{
    borrow::Cow,
    fmt::Write as _,
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tidegate_tower::ceil_seconds;

use super::{
    about,
    command::{argument, shown, whole},
    commands::{CommandInfo, Verb},
    reply::Replies,
    request::Args,
};
use crate::{
    auth::{Access, TooManyWrongTokens},
    config::Tokens,
    metrics::Transport,
    service::{Actor, Service},
};

/// The Redis version whose connection commands are supported, such as HELLO and CLIENT SETINFO.
pub(super) const REDIS_VERSION: &str = "7.2.0";

static SESSIONS: AtomicU64 = AtomicU64::new(1);

const NOAUTH: &str = "NOAUTH Authentication required.";
const NOAUTH_HELLO: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
const WRONGPASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_TOKENS: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";
const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Session {
    id: u64,
    peer: SocketAddr,
    access: Access,
    name: Vec<u8>,
    library: [Vec<u8>; 2],
    reply_mode: ReplyMode,
    /// Whether the connection is closed after the replies are sent.
    pub(crate) over: bool,
    /// The delay before the replies are sent: a wrong token beyond the limit is answered late.
    pub(crate) delay: Option<Duration>,
}

/// Whether the caller wants replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyMode {
    On,
    Off,
    /// Not to the next commands, this many.
    Skip(u8),
}

impl Session {
    pub(crate) fn new(peer: SocketAddr, tokens: &Tokens) -> Self {
        Self {
            id: SESSIONS.fetch_add(1, Ordering::Relaxed),
            peer,
            access: tokens.grant(None),
            name: Vec::new(),
            library: [Vec::new(), Vec::new()],
            reply_mode: ReplyMode::On,
            over: false,
            delay: None,
        }
    }

    /// Returns the actor for the audit log.
    #[inline]
    pub(crate) fn actor(&self) -> Actor {
        Actor { address: Some(self.peer.ip().to_canonical()) }
    }

    /// Returns whether the caller must send a token first.
    pub(crate) fn needs_token(&self) -> bool {
        self.access == Access::Nothing
    }

    /// Returns an error if the caller may not use a command.
    #[inline]
    pub(crate) fn forbids(&self, command: &CommandInfo) -> Option<String> {
        if self.access >= command.access {
            return None;
        }
        Some(match self.access {
            Access::Nothing => NOAUTH.to_owned(),
            _ => format!("NOPERM {} needs the admin token: AUTH with it first", command.name),
        })
    }

    /// Returns whether the reply to the last command is sent.
    #[inline]
    pub(crate) fn wants_reply(&mut self) -> bool {
        match self.reply_mode {
            ReplyMode::On => return true,
            ReplyMode::Skip(count) if count > 1 => self.reply_mode = ReplyMode::Skip(count - 1),
            ReplyMode::Skip(_) => self.reply_mode = ReplyMode::On,
            ReplyMode::Off => {}
        }
        false
    }

    /// Answers a command that does not need the store.
    pub(crate) fn answer(&mut self, verb: Verb, args: Args<'_>, tokens: &Tokens, service: &Service, out: &mut Replies) {
        match verb {
            Verb::Ping if args.len() > 2 => out.error(&verb.info().wrong_number()),
            Verb::Ping => match args.get(1) {
                Some(message) => out.bulk(message),
                None => out.simple("PONG"),
            },
            Verb::Echo => out.bulk(argument(args, 1)),
            Verb::Hello => self.hello(args, tokens, service, out),
            Verb::Auth if args.len() > 3 => out.error(&verb.info().wrong_number()),
            Verb::Auth => match self.authenticate(argument(args, args.len() - 1), tokens, service) {
                Ok(()) => out.ok(),
                Err(error) => out.error(&error),
            },
            Verb::Quit => {
                self.over = true;
                out.ok();
            }
            Verb::Reset => {
                self.access = tokens.grant(None);
                self.name.clear();
                self.reply_mode = ReplyMode::On;
                out.resp3 = false;
                out.simple("RESET");
            }
            Verb::Select => match whole(argument(args, 1)) {
                Some(0) => out.ok(),
                Some(_) => out.error("ERR DB index is out of range: there is one database here, 0"),
                None => out.error("ERR value is not an integer or out of range"),
            },
            Verb::Client => self.client(args, out),
            Verb::Command => about::commands(args, out),
            Verb::Info => about::service(args, service, out),
            Verb::Config => about::config(args, out),
            Verb::Cluster => out.error("ERR This instance has cluster support disabled"),
            // Those are answered by the service.
            _ => out.error(&unknown(args)),
        }
    }

    fn authenticate(&mut self, token: &[u8], tokens: &Tokens, service: &Service) -> Result<(), Cow<'static, str>> {
        if !tokens.are_configured() {
            return Err(NO_TOKENS.into());
        }
        if tokens.contains(token) {
            self.access = tokens.grant(Some(token));
            return Ok(());
        }
        let wrong_tokens = service.wrong_tokens();
        match wrong_tokens.count(service.metrics(), Transport::Resp, Some(self.peer.ip())) {
            Ok(()) => Err(WRONGPASS.into()),
            Err(TooManyWrongTokens(wait)) => {
                (self.over, self.delay) = (true, Some(wrong_tokens.delay()));
                let wait = ceil_seconds(wait);
                Err(format!("ERR too many wrong tokens from your address: try again in {wait} seconds").into())
            }
        }
    }

    /// `HELLO [version [AUTH user token] [SETNAME name]]`: all of it, or nothing.
    fn hello(&mut self, args: Args<'_>, tokens: &Tokens, service: &Service, out: &mut Replies) {
        let resp3 = match args.get(1) {
            None => out.resp3,
            Some(b"2") => false,
            Some(b"3") => true,
            Some(other) if whole(other).is_some() => return out.error("NOPROTO unsupported protocol version"),
            Some(_) => return out.error("ERR Protocol version is not an integer or out of range"),
        };
        let (mut token, mut name) = (None, None);
        let mut at = 2;
        while let Some(word) = args.get(at) {
            if word.eq_ignore_ascii_case(b"AUTH") && at + 2 < args.len() {
                token = args.get(at + 2);
                at += 3;
            } else if word.eq_ignore_ascii_case(b"SETNAME") && at + 1 < args.len() {
                name = args.get(at + 1);
                at += 2;
            } else {
                return out.error(&format!("ERR Syntax error in HELLO option '{}'", shown(word)));
            }
        }
        if name.is_some_and(|name| !is_name(name)) {
            return out.error(BAD_NAME);
        }
        if let Some(token) = token
            && let Err(error) = self.authenticate(token, tokens, service)
        {
            return out.error(&error);
        }
        if self.access == Access::Nothing {
            return out.error(NOAUTH_HELLO);
        }
        if let Some(name) = name {
            name.clone_into(&mut self.name);
        }
        out.resp3 = resp3;
        out.map(7);
        out.named("server", |out| out.bulk("tidegate"));
        out.named("version", |out| out.bulk(REDIS_VERSION));
        out.named("proto", |out| out.integer(if resp3 { 3 } else { 2 }));
        out.named("id", |out| out.integer(self.id));
        out.named("mode", |out| out.bulk("standalone"));
        out.named("role", |out| out.bulk("master"));
        out.named("modules", |out| out.array(0));
    }

    fn client(&mut self, args: Args<'_>, out: &mut Replies) {
        let word = argument(args, 1).to_ascii_uppercase();
        match (word.as_slice(), args.len()) {
            (b"ID", 2) => out.integer(self.id),
            // A list contains only this connection, so that callers don't see each other.
            (b"INFO", 2) | (b"LIST", _) => out.text(&self.line(out.resp3)),
            (b"GETNAME", 2) if self.name.is_empty() => out.null(),
            (b"GETNAME", 2) => out.bulk(&self.name),
            (b"SETNAME", 3) if !is_name(argument(args, 2)) => out.error(BAD_NAME),
            (b"SETNAME", 3) => {
                argument(args, 2).clone_into(&mut self.name);
                out.ok();
            }
            (b"SETINFO", 4) => self.set_info(argument(args, 2), argument(args, 3), out),
            (b"NO-EVICT" | b"NO-TOUCH", 3) => out.ok(),
            (b"REPLY", 3) => self.reply(argument(args, 2), out),
            (b"ID" | b"INFO" | b"GETNAME" | b"SETNAME" | b"SETINFO" | b"NO-EVICT" | b"NO-TOUCH" | b"REPLY", _) => {
                let name = word.to_ascii_lowercase();
                out.error(&format!("ERR wrong number of arguments for 'client|{}' command", shown(&name)));
            }
            _ => {
                let usage = Verb::Client.info().usage;
                out.error(&format!("ERR unknown subcommand '{}'. Use CLIENT {usage}", shown(argument(args, 1))));
            }
        }
    }

    fn set_info(&mut self, attribute: &[u8], value: &[u8], out: &mut Replies) {
        let index = match attribute.to_ascii_uppercase().as_slice() {
            b"LIB-NAME" => 0,
            b"LIB-VER" => 1,
            _ => return out.error(&format!("ERR Unrecognized option '{}'", shown(attribute))),
        };
        if !is_name(value) {
            let name = shown(attribute);
            return out.error(&format!("ERR {name} cannot contain spaces, newlines or special characters."));
        }
        value.clone_into(&mut self.library[index]);
        out.ok();
    }

    fn reply(&mut self, choice: &[u8], out: &mut Replies) {
        match choice.to_ascii_uppercase().as_slice() {
            b"ON" => {
                self.reply_mode = ReplyMode::On;
                out.ok();
            }
            b"OFF" => self.reply_mode = ReplyMode::Off,
            // No reply to this command and to the next one.
            b"SKIP" if self.reply_mode == ReplyMode::On => self.reply_mode = ReplyMode::Skip(2),
            b"SKIP" => {}
            _ => out.error("ERR syntax error: use CLIENT REPLY on, off or skip"),
        }
    }

    fn line(&self, resp3: bool) -> String {
        let [library, version] = self.library.each_ref().map(|text| shown(text));
        let (name, resp) = (shown(&self.name), if resp3 { 3 } else { 2 });
        let Self { id, peer, .. } = self;
        format!("id={id} addr={peer} name={name} db=0 resp={resp} lib-name={library} lib-ver={version}\n")
    }
}

/// Returns the error for an unknown command, in the words of Redis.
pub(crate) fn unknown(args: Args<'_>) -> String {
    let name = argument(args, 0);
    let mut message = format!("ERR unknown command '{}', with args beginning with: ", shown(name));
    for arg in args.iter().skip(1).take(8) {
        if message.len() > 256 {
            break;
        }
        let _ = write!(message, "'{}' ", shown(arg));
    }
    message
}

fn is_name(name: &[u8]) -> bool {
    name.len() <= 256 && name.iter().all(u8::is_ascii_graphic)
}
