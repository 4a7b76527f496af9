//! The table of all commands: their names, their arguments and the access that they need.

use crate::auth::Access;

/// The description of a command. The usage leaves out `JOINED` and `OP`, which other services use (docs/resp.md).
#[derive(Debug)]
pub(crate) struct CommandInfo {
    pub(crate) verb: Verb,
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
    ($($verb:ident $name:literal $usage:literal $arity:literal $key:literal $access:ident $summary:literal;)*) => {
        /// A command.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Verb {
            $($verb,)*
        }

        /// All commands, in the order of [`Verb`].
        pub(crate) static COMMANDS: &[CommandInfo] = &[$(CommandInfo {
            verb: Verb::$verb,
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
    Check "TG.CHECK" "policy key [COST n] [OPERATION name] [ONFAIL open|closed|local] [FULL]" -3 2 Usage
        "Spends the cost if it fits";
    CheckAll "TG.CHECKALL" "policy key cost [policy key cost ...] [FULL]" -4 2 Usage
        "Spends under several policies and keys if all fit, otherwise under none";
    Limit "TG.LIMIT" "key limit [limit ...] [COST n] [ALGORITHM name] [ONFAIL open|closed|local] [FULL]" -3 1 Usage
        "Spends the cost if it fits limits supplied by the caller, such as 60/1m";
    Peek "TG.PEEK" "policy key [COST n] [FULL]" -3 2 Usage
        "Returns the decision of TG.CHECK and spends nothing";
    Charge "TG.CHARGE" "policy key n [FULL]" -4 2 Usage
        "Spends the cost even beyond the limit";
    Reserve "TG.RESERVE" "policy key cost ttl_ms [SPENT] [FULL]" -5 2 Usage
        "Spends the cost if it fits, and returns an id with which the actual cost is reported later";
    Commit "TG.COMMIT" "id actual [actual ...] [FULL]" -3 0 Usage
        "Closes a hold with the actual cost: one for all of its requests, or one for each";
    Release "TG.RELEASE" "id [FULL]" -2 0 Usage
        "Closes a hold and gives all of its units back";
    Renew "TG.RENEW" "id ttl_ms [FULL]" -3 0 Usage
        "Sets the end of an open hold to this time from now";
    Lease "TG.LEASE" "policy key asked ttl_ms [LEAST n] [LEAST_TTL ms] [SETTLE id spent] [FULL]" -5 2 Usage
        "Sets units aside that a node may admit by itself";
    Settle "TG.SETTLE" "id spent [FULL]" -3 0 Usage
        "Closes a lease with the units that were spent";
    Refund "TG.REFUND" "policy key n charged_at_us [FULL]" -5 2 Admin
        "Refunds units to the moment of their charge";
    Forget "TG.RESET" "policy key" -3 2 Admin
        "Resets a key";
    Inspect "TG.INSPECT" "policy key" -3 2 Admin
        "Shows the state of a key";
    Throttle "CL.THROTTLE" "key max_burst count period_seconds [quantity]" -5 1 Usage
        "Decides by gcra and replies like redis-cell";
    Ping "PING" "[message]" -1 0 Nothing "Returns PONG, or the message";
    Echo "ECHO" "message" 2 0 Usage "Returns the message";
    Hello "HELLO" "[2|3 [AUTH user token] [SETNAME name]]" -1 0 Nothing "Chooses the version of the protocol";
    Auth "AUTH" "[user] token" -2 0 Nothing "Authenticates with a token";
    Quit "QUIT" "" -1 0 Nothing "Closes the connection";
    Reset "RESET" "" 1 0 Nothing "Resets the state of the connection";
    Select "SELECT" "0" 2 0 Usage "There is one database, 0";
    Client "CLIENT" "ID|INFO|LIST|GETNAME|SETNAME name|SETINFO attribute value|REPLY on|off|skip" -2 0 Usage
        "Describes or configures the connection";
    Command "COMMAND" "[COUNT|LIST|INFO [name ...]|DOCS [name ...]]" -1 0 Usage "Describes the commands";
    Info "INFO" "[section ...]" -1 0 Usage "Describes the service";
    Config "CONFIG" "GET name [name ...]" -2 0 Usage "Returns the settings that the tools of Redis request";
    Cluster "CLUSTER" "" -2 0 Usage "There is no cluster";
    Multi "MULTI" "" 1 0 Usage "Queues the commands that follow, until EXEC";
    Exec "EXEC" "" 1 0 Usage "Runs the queued commands one after the other, not atomically";
    Discard "DISCARD" "" 1 0 Usage "Drops the queued commands";
    Watch "WATCH" "key [key ...]" -2 1 Usage "Has no effect: EXEC always runs";
    Unwatch "UNWATCH" "" 1 0 Usage "Has no effect";
}

impl Verb {
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
    /// Returns the command with this name, in any case.
    #[inline]
    pub(crate) fn named(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
    }

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
    use super::{COMMANDS, CommandInfo};

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for command in COMMANDS {
            for name in [command.name.to_owned(), command.name.to_ascii_lowercase()] {
                assert_eq!(CommandInfo::named(name.as_bytes()).map(|found| found.verb), Some(command.verb), "{name}");
            }
        }
    }
}
