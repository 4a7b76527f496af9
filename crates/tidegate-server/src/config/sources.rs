//! [`SettingSources`]: settings from the environment and the command line. They replace settings of the file.

use serde::de::DeserializeOwned;

use super::{
    error::{ConfigError, Origin},
    file::{ServerTable, StoreTable},
};

/// Settings that replace those of a file: variables such as `TIDEGATE_SERVER_HTTP`, then flags.
#[derive(Debug, Clone, Default)]
pub struct SettingSources {
    pub(super) settings: Vec<Setting>,
}

/// One setting.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// The name of the variable or flag, for errors.
    pub(super) name: String,
    /// `server` or `store`.
    pub(super) table: &'static str,
    pub(super) key: String,
    text: String,
}

impl SettingSources {
    /// Reads the settings of the environment.
    ///
    /// # Errors
    /// If a variable of Tidegate is not Unicode.
    pub fn from_environment() -> Result<Self, ConfigError> {
        let mut sources = Self::default();
        let mut variables: Vec<_> = std::env::vars_os().collect();
        variables.sort();
        for (name, value) in variables {
            let Some(name) = name.to_str() else { continue };
            let tables = [("TIDEGATE_SERVER_", "server"), ("TIDEGATE_STORE_", "store")];
            let key_in = |(prefix, table)| Some((table, name.strip_prefix(prefix)?.to_lowercase()));
            let Some((table, key)) = tables.into_iter().find_map(key_in) else { continue };
            let value = value.to_str().ok_or_else(|| ConfigError::new(name, "is not Unicode"))?;
            // Orchestrators set such variables for a service named `tidegate-server` or `tidegate-store`.
            if key == "port" || key.starts_with("port_") || key.starts_with("service_") {
                continue;
            }
            sources = sources.with(table, name, &key, value);
        }
        Ok(sources)
    }

    /// Adds a value for a key of `[server]`, set by a flag.
    #[must_use]
    pub fn server(self, flag: &str, key: &str, value: impl Into<String>) -> Self {
        self.with("server", flag, key, value)
    }

    /// Adds a value for a key of `[store]`, set by a flag.
    #[must_use]
    pub fn store(self, flag: &str, key: &str, value: impl Into<String>) -> Self {
        self.with("store", flag, key, value)
    }

    fn with(mut self, table: &'static str, name: &str, key: &str, value: impl Into<String>) -> Self {
        self.settings.push(Setting { name: name.to_owned(), table, key: key.to_owned(), text: value.into() });
        self
    }

    pub(super) fn apply(
        &self,
        mut server: ServerTable,
        mut store: StoreTable,
    ) -> Result<(ServerTable, StoreTable), ConfigError> {
        for Setting { name, table, key, text } in &self.settings {
            let origin = Origin { name, text: "", replaced_by: &[] };
            // A value is read as text first, then as TOML for numbers, booleans and lists.
            let as_text = toml::Value::String(text.clone());
            let parsed = toml::from_str::<toml::Table>(&format!("value = {text}")).ok();
            let as_toml = parsed.and_then(|mut table| table.remove("value"));
            let of = |value: toml::Value| toml::Table::from_iter([(key.clone(), value)]);
            let failed = |error: toml::de::Error| origin.parser_error(&error);
            match *table {
                "server" => server = server.replaced_by(either(of(as_text), as_toml.map(of)).map_err(failed)?),
                _ => store = store.replaced_by(either(of(as_text), as_toml.map(of)).map_err(failed)?),
            }
        }
        Ok((server, store))
    }
}

/// Reads the first of the two tables that is valid. If none is, returns the error of the first.
fn either<T: DeserializeOwned>(first: toml::Table, second: Option<toml::Table>) -> Result<T, toml::de::Error> {
    first.try_into().or_else(|error| second.and_then(|second| second.try_into().ok()).ok_or(error))
}
