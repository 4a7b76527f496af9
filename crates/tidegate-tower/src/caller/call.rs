//! [`Call`]: what a call wants of a budget. [`Operation`]: what a kind of call costs.

use tidegate::{Cost, Key, OnStoreFailure};

/// What a call wants: for whom, and how much.
#[derive(Debug, Clone)]
pub struct Call {
    pub(crate) key: Key<'static>,
    pub(crate) price: Price,
}

#[derive(Debug, Clone)]
pub(crate) enum Price {
    /// So much of every policy.
    Same(Cost),
    /// So much of each policy, in order.
    Each(Box<[Cost]>),
    /// What the budget says this costs.
    Operation(Box<str>),
}

impl Call {
    /// 1 unit of every policy.
    pub fn new(key: &Key<'_>) -> Self {
        Self { key: key.clone().into_owned(), price: Price::Same(Cost::ONE) }
    }

    /// 1 unit of every policy for calls to a host, in whatever case its name is written; those without one are all alike.
    pub fn to(host: &str) -> Self {
        let name = if host.is_empty() { "nowhere".to_owned() } else { host.to_ascii_lowercase() };
        // No host's name is as long as a key can be.
        let name = &name.as_bytes()[..name.len().min(1024)];
        Key::new(name).map_or_else(|_| unreachable!("1 to 1024 bytes"), |key| Self::new(&key))
    }

    /// The same with `cost` units of every policy.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.price = Price::Same(cost);
        self
    }

    /// The same with so much of each policy, in the order that the budget has them.
    #[must_use]
    pub fn costs(mut self, costs: &[Cost]) -> Self {
        self.price = Price::Each(costs.into());
        self
    }

    /// The same at the price of an [`Operation`] of the budget.
    #[must_use]
    pub fn operation(mut self, name: &str) -> Self {
        self.price = Price::Operation(name.into());
        self
    }
}

/// What a kind of call costs, and whether it may be made while nobody knows what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    pub(crate) cost: Cost,
    pub(crate) on_store_failure: Option<OnStoreFailure>,
}

impl Operation {
    /// A call that costs so much.
    pub fn costing(cost: Cost) -> Self {
        Self { cost, on_store_failure: None }
    }

    /// The same with a choice of its own for when the store fails; the policies' if unsaid.
    #[must_use]
    pub fn on_store_failure(mut self, choice: OnStoreFailure) -> Self {
        self.on_store_failure = Some(choice);
        self
    }
}
