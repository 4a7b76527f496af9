//! [`Overrides`]: what the environment and the command line say in place of the file.

use serde::de::DeserializeOwned;

use super::{
    error::{ConfigError, Origin},
    file::{ServerTable, StoreTable},
};

/// What overrides a file: variables such as `TIDEGATE_SERVER_HTTP`, then flags.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    pub(super) said: Vec<Said>,
}

/// One thing that was said.
#[derive(Debug, Clone)]
pub(super) struct Said {
    /// What to call it in an error.
    pub(super) name: String,
    table: Table,
    key: String,
    text: String,
}

impl Said {
    /// Whether it is about this key.
    pub(super) fn is(&self, table: &str, key: &str) -> bool {
        self.key == key && table == if self.table == Table::Server { "server" } else { "store" }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Server,
    Store,
}

impl Overrides {
    /// Those of the process's environment.
    ///
    /// # Errors
    /// If a variable of ours is not Unicode.
    pub fn from_environment() -> Result<Self, ConfigError> {
        let mut overrides = Self::default();
        let mut variables: Vec<_> = std::env::vars_os().collect();
        variables.sort();
        for (name, value) in variables {
            let Some(name) = name.to_str() else { continue };
            let table = if name.starts_with("TIDEGATE_SERVER_") {
                Table::Server
            } else if name.starts_with("TIDEGATE_STORE_") {
                Table::Store
            } else {
                continue;
            };
            let Some(value) = value.to_str() else {
                return Err(ConfigError {
                    origin: name.to_owned(),
                    line: None,
                    message: "is not Unicode".to_owned(),
                    unreadable: false,
                });
            };
            let key = name.trim_start_matches("TIDEGATE_SERVER_").trim_start_matches("TIDEGATE_STORE_").to_lowercase();
            // What an orchestrator says of a service that happens to be called like this.
            if key == "port" || key.starts_with("port_") || key.starts_with("service_") {
                continue;
            }
            overrides.said.push(Said { name: name.to_owned(), table, key, text: value.to_owned() });
        }
        Ok(overrides)
    }

    /// Adds a value for a key of `[server]`, said by a flag.
    #[must_use]
    pub fn server(mut self, flag: &str, key: &str, value: impl Into<String>) -> Self {
        self.said.push(Said { name: flag.to_owned(), table: Table::Server, key: key.to_owned(), text: value.into() });
        self
    }

    /// Adds a value for a key of `[store]`, said by a flag.
    #[must_use]
    pub fn store(mut self, flag: &str, key: &str, value: impl Into<String>) -> Self {
        self.said.push(Said { name: flag.to_owned(), table: Table::Store, key: key.to_owned(), text: value.into() });
        self
    }

    pub(super) fn apply(
        &self,
        mut server: ServerTable,
        mut store: StoreTable,
    ) -> Result<(ServerTable, StoreTable), ConfigError> {
        for Said { name, table, key, text } in &self.said {
            let origin = Origin { name, text: "", overridden: &[] };
            // As text first; a number, a truth value or a list is what it looks like where a text won't do.
            let as_text = toml::Value::String(text.clone());
            let parsed = toml::from_str::<toml::Table>(&format!("value = {text}")).ok();
            let as_toml = parsed.and_then(|mut table| table.remove("value"));
            let of = |value: toml::Value| toml::Table::from_iter([(key.clone(), value)]);
            let failed = |error: toml::de::Error| origin.parser_error(&error);
            match table {
                Table::Server => server = server.overridden_by(either(of(as_text), as_toml.map(of)).map_err(failed)?),
                Table::Store => store = store.overridden_by(either(of(as_text), as_toml.map(of)).map_err(failed)?),
            }
        }
        Ok((server, store))
    }
}

/// Reads the first of the two that can be read; if neither can, says what is wrong with the first.
fn either<T: DeserializeOwned>(first: toml::Table, second: Option<toml::Table>) -> Result<T, toml::de::Error> {
    first.try_into().or_else(|error| second.and_then(|second| second.try_into().ok()).ok_or(error))
}
