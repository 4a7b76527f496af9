//! [`Call`]: the key and the cost of a call. [`Operation`]: a named kind of call.

use tidegate::{Cost, Key, OnStoreFailure};

/// The key and the cost of a call.
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) key: Key<'static>,
    pub(crate) cost: CallCost,
}

#[derive(Debug, Clone)]
pub(crate) enum CallCost {
    /// The same cost under every policy.
    Uniform(Cost),
    /// One cost for each policy, in order.
    PerPolicy(Box<[Cost]>),
    /// The cost of an operation of the budget.
    Operation(Box<str>),
}

impl Call {
    /// A call that costs 1 unit of every policy.
    pub fn new(key: &Key<'_>) -> Self {
        Self { key: key.clone().into_owned(), cost: CallCost::Uniform(Cost::ONE) }
    }

    /// A call to a host that costs 1 unit of every policy. The case of the host name does not matter. All calls with an
    /// empty host name have the same key.
    pub fn to_host(host: &str) -> Self {
        let name = if host.is_empty() { "no-host".to_owned() } else { host.to_ascii_lowercase() };
        // A key may be longer than any valid host name.
        let name = &name.as_bytes()[..name.len().min(1024)];
        Key::new(name).map_or_else(|_| unreachable!("1 to 1024 bytes"), |key| Self::new(&key))
    }

    /// Sets the same cost for every policy.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.cost = CallCost::Uniform(cost);
        self
    }

    /// Sets a cost for each policy, in the order of the budget's policies.
    #[must_use]
    pub fn costs(mut self, costs: &[Cost]) -> Self {
        self.cost = CallCost::PerPolicy(costs.into());
        self
    }

    /// Sets the cost to that of an [`Operation`] of the budget.
    #[must_use]
    pub fn operation(mut self, name: &str) -> Self {
        self.cost = CallCost::Operation(name.into());
        self
    }
}

/// A kind of call: its cost, and what happens if the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    pub(crate) cost: Cost,
    pub(crate) on_store_failure: Option<OnStoreFailure>,
}

impl Operation {
    /// An operation with this cost.
    pub fn new(cost: Cost) -> Self {
        Self { cost, on_store_failure: None }
    }

    /// Sets what happens if the store fails. By default the policies choose.
    #[must_use]
    pub fn on_store_failure(mut self, choice: OnStoreFailure) -> Self {
        self.on_store_failure = Some(choice);
        self
    }
}
