//! [`Verb`]: all commands, their arguments and the access that they need.

use crate::auth::Access;

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Check,
    CheckAll,
    Limit,
    Peek,
    Charge,
    Refund,
    Forget,
    Inspect,
    Throttle,
    Ping,
    Echo,
    Hello,
    Auth,
    Quit,
    Reset,
    Select,
    Client,
    Command,
    Info,
    Config,
    Cluster,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
}

/// The description of a command.
#[derive(Debug)]
pub(crate) struct CommandInfo {
    pub(crate) name: &'static str,
    /// The arguments.
    pub(crate) usage: &'static str,
    /// Number of arguments with the name; if negative, the minimum.
    pub(crate) arity: i64,
    /// Index of its first key; 0 if it has none.
    pub(crate) key: usize,
    pub(crate) access: Access,
    pub(crate) summary: &'static str,
}

macro_rules! commands {
    ($($name:literal $usage:literal $arity:literal $key:literal $access:ident $summary:literal;)*) => {
        /// All commands, in the order of [`Verb`].
        pub(crate) static COMMANDS: &[CommandInfo] = &[$(CommandInfo {
            name: $name,
            usage: $usage,
            arity: $arity,
            key: $key,
            access: Access::$access,
            summary: $summary,
        }),*];
    };
}

commands! {
    "TG.CHECK" "policy key [COST n] [OPERATION name] [ONFAIL open|closed|local] [FULL]" -3 2 Usage
        "Spends the cost if it fits";
    "TG.CHECKALL" "policy key cost [policy key cost ...] [FULL]" -4 2 Usage
        "Spends under several policies and keys if all fit, otherwise under none";
    "TG.LIMIT" "key limit [limit ...] [COST n] [ALGORITHM name] [ONFAIL open|closed|local] [FULL]" -3 1 Usage
        "Spends the cost if it fits limits supplied by the caller, such as 60/1m";
    "TG.PEEK" "policy key [COST n] [FULL]" -3 2 Usage
        "Returns the decision of TG.CHECK and spends nothing";
    "TG.CHARGE" "policy key n [FULL]" -4 2 Usage
        "Spends the cost even beyond the limit";
    "TG.REFUND" "policy key n charged_at_us" 5 2 Admin
        "Refunds units to the moment of their charge";
    "TG.RESET" "policy key" 3 2 Admin
        "Resets a key";
    "TG.INSPECT" "policy key" 3 2 Admin
        "Shows the state of a key";
    "CL.THROTTLE" "key max_burst count period_seconds [quantity]" -5 1 Usage
        "Decides by gcra and replies like redis-cell";
    "PING" "[message]" -1 0 Nothing "Returns PONG, or the message";
    "ECHO" "message" 2 0 Usage "Returns the message";
    "HELLO" "[2|3 [AUTH user token] [SETNAME name]]" -1 0 Nothing "Chooses the version of the protocol";
    "AUTH" "[user] token" -2 0 Nothing "Authenticates with a token";
    "QUIT" "" -1 0 Nothing "Closes the connection";
    "RESET" "" 1 0 Nothing "Resets the state of the connection";
    "SELECT" "0" 2 0 Usage "There is one database, 0";
    "CLIENT" "ID|INFO|LIST|GETNAME|SETNAME name|SETINFO attribute value|REPLY on|off|skip" -2 0 Usage
        "Describes or configures the connection";
    "COMMAND" "[COUNT|LIST|INFO [name ...]|DOCS [name ...]]" -1 0 Usage "Describes the commands";
    "INFO" "[section ...]" -1 0 Usage "Describes the service";
    "CONFIG" "GET name [name ...]" -2 0 Usage "Returns the settings that the tools of Redis request";
    "CLUSTER" "" -2 0 Usage "There is no cluster";
    "MULTI" "" 1 0 Usage "Queues the commands that follow, until EXEC";
    "EXEC" "" 1 0 Usage "Runs the queued commands one after the other, not atomically";
    "DISCARD" "" 1 0 Usage "Drops the queued commands";
    "WATCH" "key [key ...]" -2 1 Usage "Has no effect: EXEC always runs";
    "UNWATCH" "" 1 0 Usage "Has no effect";
}

/// Length of the longest name.
const LONGEST: usize = 11;

impl Verb {
    /// Returns the command with this name, in any case.
    #[inline]
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        let mut upper = [0; LONGEST];
        let upper = upper.get_mut(..name.len())?;
        upper.copy_from_slice(name);
        upper.make_ascii_uppercase();
        Some(match &*upper {
            b"TG.CHECK" => Self::Check,
            b"TG.LIMIT" => Self::Limit,
            b"CL.THROTTLE" => Self::Throttle,
            b"TG.CHECKALL" => Self::CheckAll,
            b"TG.PEEK" => Self::Peek,
            b"TG.CHARGE" => Self::Charge,
            b"TG.REFUND" => Self::Refund,
            b"TG.RESET" => Self::Forget,
            b"TG.INSPECT" => Self::Inspect,
            b"PING" => Self::Ping,
            b"ECHO" => Self::Echo,
            b"HELLO" => Self::Hello,
            b"AUTH" => Self::Auth,
            b"QUIT" => Self::Quit,
            b"RESET" => Self::Reset,
            b"SELECT" => Self::Select,
            b"CLIENT" => Self::Client,
            b"COMMAND" => Self::Command,
            b"INFO" => Self::Info,
            b"CONFIG" => Self::Config,
            b"CLUSTER" => Self::Cluster,
            b"MULTI" => Self::Multi,
            b"EXEC" => Self::Exec,
            b"DISCARD" => Self::Discard,
            b"WATCH" => Self::Watch,
            b"UNWATCH" => Self::Unwatch,
            _ => return None,
        })
    }

    /// Returns whether this is a command for transactions.
    #[inline]
    pub(crate) fn is_of_transactions(self) -> bool {
        matches!(self, Self::Multi | Self::Exec | Self::Discard | Self::Watch | Self::Unwatch)
    }

    #[inline]
    pub(crate) fn info(self) -> &'static CommandInfo {
        &COMMANDS[self as usize]
    }
}

impl CommandInfo {
    /// Returns whether the number of arguments, with the name, can be right.
    #[inline]
    pub(crate) fn takes(&self, arguments: usize) -> bool {
        let arguments = i64::try_from(arguments).unwrap_or(i64::MAX);
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }

    /// Returns the error for a wrong number of arguments.
    pub(crate) fn wrong_number(&self) -> String {
        let Self { name, usage, .. } = self;
        let lower = name.to_ascii_lowercase();
        format!("ERR wrong number of arguments for '{lower}' command: use {name} {usage}").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, LONGEST, Verb};

    #[test]
    fn every_command_is_found_by_its_name_and_its_index() {
        for (index, command) in COMMANDS.iter().enumerate() {
            let found = |name: &str| Verb::named(name.as_bytes()).map(|verb| verb as usize);
            assert_eq!(found(command.name), Some(index), "{}", command.name);
            assert_eq!(found(&command.name.to_ascii_lowercase()), Some(index), "{}", command.name);
        }
        assert_eq!(COMMANDS.iter().map(|command| command.name.len()).max(), Some(LONGEST));
    }
}
