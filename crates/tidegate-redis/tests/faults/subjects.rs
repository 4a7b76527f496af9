//! The subjects of the load, and their policies.

use tidegate::{Cost, Key, OnStoreFailure, Policy, Share};

/// Number of subjects of the load.
pub(crate) const SUBJECTS: usize = 4;

/// Units in a window of the tight policy.
pub(crate) const TIGHT_MAX: u64 = 300;

/// A subject's key.
pub(crate) fn key(subject: usize) -> Key<'static> {
    Key::join([format!("subject {subject}")]).expect("a short key")
}

/// A policy whose window is longer than every run and whose limit is never reached: Redis has the sum of all its charges.
pub(crate) fn roomy() -> Policy {
    Policy::new("roomy", ["1000000000/1h".parse().expect("a limit")]).expect("a policy")
}

/// A policy whose limit is always reached, with a window longer than a restart. Without Redis, this process admits half of it.
pub(crate) fn tight() -> Policy {
    let limit = format!("{TIGHT_MAX}/500ms").parse().expect("a limit");
    Policy::new("tight", [limit]).expect("a policy").with_on_store_failure(local_half())
}

pub(crate) fn local_half() -> OnStoreFailure {
    OnStoreFailure::Local(Share::new(0.5).expect("a half"))
}

pub(crate) fn cost(units: u64) -> Cost {
    Cost::new(units).expect("a cost")
}
