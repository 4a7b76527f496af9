//! Replacing the policies while the service runs, and the files that were refused.

use std::sync::Arc;

use super::{ActivePolicies, Event, Service, degraded::degradation};
use crate::{
    config::{Config, ConfigError, ConfiguredPolicy, Policies},
    store,
};

/// Cause that is reported while the configuration file is refused.
pub(crate) const CONFIGURATION_REFUSED: &str = "configuration_refused";

/// Cause that is reported while a certificate file is refused.
pub(crate) const CERTIFICATE_REFUSED: &str = "certificate_refused";

impl Service {
    /// Activates the policies of a configuration, or records why it is refused: all of them, or none.
    ///
    /// A file that removes all policies, or more than it keeps, is refused unless it sets `allow_removal = true` in
    /// `[server]`.
    pub(crate) fn activate(&self, read: Result<Config, ConfigError>) -> Result<Config, ConfigError> {
        let _guard = self.reloading.lock();
        let cure = "correct the file: `tidegate config check FILE` shows what is wrong with it";
        let mut config = read.inspect_err(|error| self.refuse(error, cure))?;
        if let Some(message) = self.excessive_removal(&config) {
            let origin = config.file.as_ref().map_or_else(String::new, |file| file.display().to_string());
            let error = ConfigError::new(origin, message);
            let cure = "complete the file, or set `allow_removal = true` in its [server] to remove them on purpose";
            self.refuse(&error, cure);
            return Err(error);
        }
        self.warn_of_removals(&config);
        self.replace(std::mem::take(&mut config.policies));
        self.metrics.reloaded(true);
        let policies = self.active_policies().policies.len();
        self.observer.event(Event::Reload, self.now_ms(), format!("policies reloaded: {policies} active"));
        self.accept_file(CONFIGURATION_REFUSED);
        Ok(config)
    }

    /// Activates policies, all at once. The state of keys carries over.
    pub fn replace(&self, policies: Policies) {
        let active = Arc::new(ActivePolicies::new(policies, &self.metrics, &*self.observer));
        let before = self.active.swap(Arc::clone(&active));
        if let Some(remote) = &self.remote {
            remote.set_policies(store::named(&active.policies));
        }
        for (name, _) in before.policies.iter().filter(|(name, _)| active.policies.get(name).is_none()) {
            self.metrics.policies.remove(name);
            self.observer.policy_removed(name);
        }
    }

    /// Logs the names of active policies that the new configuration lacks.
    fn warn_of_removals(&self, config: &Config) {
        let active = self.active_policies();
        let gone = active.policies.iter().map(|(name, _)| name).filter(|name| config.policies.get(name).is_none());
        let gone: Vec<&str> = gone.collect();
        if !gone.is_empty() {
            let (removed, names) = (gone.len(), gone.into_iter().take(20).collect::<Vec<_>>().join(", "));
            tracing::warn!(removed, names, "the new configuration removes policies");
        }
    }

    fn refuse(&self, error: &ConfigError, cure: &'static str) {
        self.metrics.reloaded(false);
        let text = format!("the file was refused, the previous policies stay active: {error}");
        self.observer.event(Event::ReloadRefused, self.now_ms(), text);
        self.refuse_file(CONFIGURATION_REFUSED, &error.to_string(), cure);
    }

    /// Describes the policies that a configuration would remove, if they are too many.
    fn excessive_removal(&self, config: &Config) -> Option<String> {
        if config.server.allow_removal {
            return None;
        }
        let active = self.active_policies();
        let is_kept = |(name, _): &(&str, &ConfiguredPolicy)| config.policies.get(name).is_some();
        let (before, kept) = (active.policies.len(), active.policies.iter().filter(is_kept).count());
        if before - kept > kept {
            let gone = active.policies.iter().filter(|policy| !is_kept(policy)).map(|(name, _)| name);
            let gone = gone.take(5).collect::<Vec<_>>().join(", ");
            let removed = before - kept;
            return Some(format!(
                "it would remove {removed} of {before} policies ({gone}{})",
                if removed > 5 { ", …" } else { "" }
            ));
        }
        let (before, after) = (active.policies.envoy().len(), config.policies.envoy().len());
        (before > after && before - after > after)
            .then(|| format!("it would remove {} of {before} [[envoy]] rules", before - after))
    }

    /// Records that a file was refused. Returns whether that is new.
    pub(crate) fn refuse_file(&self, cause: &'static str, error: &str, cure: &str) -> bool {
        let refused = degradation(cause, error.to_owned(), cure);
        self.refused_files.lock().insert(cause, refused.clone()) != Some(refused)
    }

    /// Records that a file is active.
    pub(crate) fn accept_file(&self, cause: &str) {
        self.refused_files.lock().remove(cause);
    }

    /// Returns the cure for a refused file.
    pub(crate) fn cure(&self, cause: &str) -> Option<String> {
        self.refused_files.lock().get(cause).map(|refused| refused.cure.clone())
    }

    /// Returns what was wrong with the configuration file at the last reload, if it was refused.
    pub fn refused_file(&self) -> Option<String> {
        self.refused_files.lock().get(CONFIGURATION_REFUSED).map(|refused| refused.detail.clone())
    }
}
