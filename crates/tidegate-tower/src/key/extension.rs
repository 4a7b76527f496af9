//! [`Extension`]: counts requests by an extension that an outer layer inserts.

use std::{fmt, sync::Arc};

use tidegate::{Key, KeyError};

use super::{ExtractError, KeyExtractor};
use crate::head::RequestHead;

/// Counts requests by an extension that an outer layer inserts, such as an account.
///
/// ```
/// use tidegate::{Key, Policy};
/// use tidegate_tower::{Rule, key::Extension};
///
/// struct Account { name: String }
/// struct User { id: u64 }
///
/// let by_account = Extension::<Account>::new(|account| Key::new(&account.name));
/// let by_user = Extension::<User>::new(|user| Ok(user.id.into()));
/// let rule = Rule::new(Policy::new("api", ["60/1m".parse()?])?).key(by_account);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// In axum, the layer that is added last is the outermost: `.layer(limits).layer(middleware::from_fn(log_in))`. If a
/// request has no such extension, or its key is empty, the rule's [`OnMissingKey`](crate::OnMissingKey) decides, and the
/// layer logs a warning once.
pub struct Extension<T> {
    key: Arc<ExtensionKeyFn<T>>,
}

type ExtensionKeyFn<T> = dyn for<'t> Fn(&'t T) -> Result<Key<'t>, KeyError> + Send + Sync;

impl<T: Send + Sync + 'static> Extension<T> {
    /// Counts requests by the key that the closure makes of an extension.
    pub fn new(key: impl for<'t> Fn(&'t T) -> Result<Key<'t>, KeyError> + Send + Sync + 'static) -> Self {
        Self { key: Arc::new(key) }
    }
}

impl<T: Send + Sync + 'static> KeyExtractor for Extension<T> {
    fn key<'r>(&self, request: &'r RequestHead<'_>) -> Result<Option<Key<'r>>, ExtractError> {
        match request.extension::<T>().map(|extension| (self.key)(extension)) {
            None | Some(Err(KeyError::Empty)) => Ok(None),
            Some(key) => Ok(Some(key?)),
        }
    }
}

impl<T> Clone for Extension<T> {
    fn clone(&self) -> Self {
        Self { key: Arc::clone(&self.key) }
    }
}

impl<T> fmt::Debug for Extension<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extension<{}>", std::any::type_name::<T>())
    }
}
