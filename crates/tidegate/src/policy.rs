//! [`Policy`]: a name, one or more limits, an algorithm and a mode.

use std::sync::Arc;

use siphasher::sip128::SipHasher13;

use crate::{
    algorithm::{Algorithm, Burst},
    algorithms::gcra,
    failure::{OnStoreFailure, Share},
    limit::Limit,
    shape::{Kind, Rule, Shape},
};

/// The most limits one policy can have.
pub(crate) const MAX_LIMITS: usize = 8;

const MAX_NAME: usize = 128;

/// Whether a policy denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Decides and denies.
    #[default]
    Enforce,
    /// Decides and counts as if it enforced, but lets everything through and says what it would have denied.
    Shadow,
}

/// Limits that are decided as one, under a name that their state is kept by.
///
/// ```
/// use tidegate::{Algorithm, Policy};
///
/// let login = Policy::new("login", ["5/1m".parse()?, "50/1d".parse()?])?;
/// let search = Policy::new("search", ["100/1s".parse()?])?.with_algorithm(Algorithm::SlidingCounter);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Policy {
    name: Option<Arc<str>>,
    limits: Arc<[Limit]>,
    algorithm: Algorithm,
    mode: Mode,
    rules: Arc<[Rule]>,
    shape: Arc<Shape>,
    identity: Identity,
    only: Option<Only>,
    /// Whether a caller brought the limits. The states of such policies have their own bounds.
    brought_by_caller: bool,
    on_store_failure: OnStoreFailure,
    /// What decides here while the store fails, if that is the choice.
    local: Option<Arc<Policy>>,
}

/// What a policy of one limit decides by, in one place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Only {
    pub(crate) limit: Limit,
    pub(crate) rule: Rule,
    pub(crate) kind: Kind,
    pub(crate) shape_id: u64,
    pub(crate) mode: Mode,
}

/// What tells one policy's state from another's: a digest for plain keys and one for joined keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) plain: u128,
    pub(crate) joined: u128,
}

impl Policy {
    /// Makes a policy that enforces `limits` by the exact sliding log.
    ///
    /// # Errors
    /// If the name is empty, longer than 128 bytes or not of printable ASCII without spaces, quotes and
    /// backslashes; if there are no limits or more than 8; or if two of them have the same window.
    pub fn new(name: &str, limits: impl IntoIterator<Item = Limit>) -> Result<Self, PolicyError> {
        let printable = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(printable) {
            return Err(PolicyError::Name);
        }
        Self::assemble(Some(name.into()), limits)
    }

    /// Makes a policy of limits that a caller brings along. Its state is that of the key, the algorithm and the
    /// windows, so that callers with other limits don't overwrite each other. It is
    /// [brought by a caller](Self::brought_by_caller).
    ///
    /// # Errors
    /// If there are no limits or more than 8, or if two of them have the same window.
    pub fn unnamed(limits: impl IntoIterator<Item = Limit>) -> Result<Self, PolicyError> {
        Self::assemble(None, limits)
    }

    fn assemble(name: Option<Arc<str>>, limits: impl IntoIterator<Item = Limit>) -> Result<Self, PolicyError> {
        let limits: Arc<[Limit]> = limits.into_iter().take(MAX_LIMITS + 1).collect();
        if limits.is_empty() || limits.len() > MAX_LIMITS {
            return Err(PolicyError::Limits { limits: limits.len() });
        }
        for (i, limit) in limits.iter().enumerate() {
            if limits[..i].iter().any(|other| other.window() == limit.window()) {
                return Err(PolicyError::SameWindow { limit: *limit });
            }
        }
        let shape = Shape::new(Algorithm::default(), &limits);
        let policy = Self {
            identity: Identity::new(name.as_deref(), &shape),
            shape: Arc::new(shape),
            brought_by_caller: name.is_none(),
            name,
            limits,
            algorithm: Algorithm::default(),
            mode: Mode::default(),
            rules: Arc::default(),
            only: None,
            on_store_failure: OnStoreFailure::default(),
            local: None,
        };
        Ok(policy.with_algorithm(Algorithm::default()))
    }

    /// The same policy, counted by another algorithm.
    #[must_use]
    pub fn with_algorithm(mut self, algorithm: Algorithm) -> Self {
        let shape = Shape::new(algorithm, &self.limits);
        let capacity = |limit: &Limit| match algorithm {
            Algorithm::Gcra(Some(burst)) => burst.get(),
            _ => limit.max(),
        };
        let rules = shape.rules(self.limits.iter().map(capacity));
        self.algorithm = algorithm;
        self.identity = Identity::new(self.name.as_deref(), &shape);
        self.shape = Arc::new(shape);
        self.with_rules(rules)
    }

    fn with_rules(mut self, mut rules: Vec<Rule>) -> Self {
        if self.shape.kind() == Kind::Gcra {
            for (rule, limit) in rules.iter_mut().zip(&*self.limits) {
                rule.capacity = rule.capacity.min(gcra::max_units(*limit));
            }
        }
        self.only = match (&*self.limits, &*rules) {
            ([limit], [rule]) => Some(Only {
                limit: *limit,
                rule: *rule,
                kind: self.shape.kind(),
                shape_id: self.shape.id(),
                mode: self.mode,
            }),
            _ => None,
        };
        self.rules = rules.into();
        self.local = None;
        let choice = self.on_store_failure;
        self.with_on_store_failure(choice)
    }

    /// The same policy, counted by gcra with a burst for each limit.
    ///
    /// # Errors
    /// If there are not as many bursts as limits.
    pub fn with_bursts(self, bursts: impl IntoIterator<Item = Burst>) -> Result<Self, PolicyError> {
        let bursts: Vec<u64> = bursts.into_iter().take(MAX_LIMITS + 1).map(Burst::get).collect();
        if bursts.len() != self.limits.len() {
            let (bursts, limits) = (bursts.len(), self.limits.len());
            return Err(PolicyError::Bursts { bursts, limits });
        }
        let policy = self.with_algorithm(Algorithm::Gcra(None));
        let rules = policy.shape.rules(bursts.into_iter());
        Ok(policy.with_rules(rules))
    }

    /// The same policy, marked as one whose limits a caller brought. A [`MemoryStore`](crate::MemoryStore) gives the
    /// states of all such policies a [share](crate::MemoryStoreBuilder::caller_share) of its keys and bytes, so that
    /// limits from callers do not affect other policies. Policies without a name are always marked.
    #[must_use]
    pub fn brought_by_caller(mut self) -> Self {
        self.brought_by_caller = true;
        let choice = self.on_store_failure;
        self.with_on_store_failure(choice)
    }

    /// The same policy in another mode.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        if let Some(only) = &mut self.only {
            only.mode = mode;
        }
        let choice = self.on_store_failure;
        self.with_on_store_failure(choice)
    }

    /// The same policy with another answer where its store can't give one.
    #[must_use]
    pub fn with_on_store_failure(mut self, choice: OnStoreFailure) -> Self {
        self.on_store_failure = choice;
        self.local = match choice {
            OnStoreFailure::Local(share) => Some(Arc::new(self.share(share))),
            _ => None,
        };
        self
    }

    /// A policy of the same name with a share of every limit.
    #[must_use]
    pub fn share(&self, part: Share) -> Self {
        let mut shared = self.clone();
        shared.local = None;
        shared.on_store_failure = OnStoreFailure::default();
        shared.limits = self.limits.iter().map(|limit| limit.with_max(part.of(limit.max()))).collect();
        shared.shape = Arc::new(Shape::new(self.algorithm, &shared.limits));
        let rules = shared.shape.rules(self.rules.iter().map(|rule| part.of(rule.capacity)));
        shared.with_rules(rules)
    }

    /// The name, unless the limits were brought by the caller.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether a caller brought the limits.
    #[inline]
    pub fn is_brought_by_caller(&self) -> bool {
        self.brought_by_caller
    }

    /// The limits, in the order given.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What is answered where the store can't.
    pub fn on_store_failure(&self) -> OnStoreFailure {
        self.on_store_failure
    }

    /// The share of this policy that decides in this process while the store fails, if that is the choice.
    pub fn local(&self) -> Option<&Policy> {
        self.local.as_deref()
    }

    /// The most units that can be in use at once under `limit`: its burst for gcra, else its max.
    pub fn capacity(&self, limit: Limit) -> u64 {
        let own = self.limits.iter().position(|own| own.window() == limit.window());
        own.map_or(limit.max(), |i| self.rules[i].capacity)
    }

    /// What a single limit decides by; `None` if there are several.
    #[inline]
    pub(crate) fn only(&self) -> Option<&Only> {
        self.only.as_ref()
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// What its parts take on the heap, shared with its copies.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.limits) + size_of_val(&*self.rules) + self.shape.heap_bytes()
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }
}

impl Identity {
    fn new(name: Option<&str>, shape: &Shape) -> Self {
        let described = match name {
            Some(name) => format!("named {name}"),
            None => format!("unnamed {}", shape.describe()),
        };
        // The digest need not be secret, only different for different policies: it is mixed with a keyed hash.
        let digest = |domain| {
            let hasher = SipHasher13::new_with_keys(0x7469_6465, domain);
            hasher.hash(described.as_bytes()).as_u128()
        };
        Self { plain: digest(1), joined: digest(2) }
    }
}

/// Why a [`Policy`] was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The name is not usable.
    #[error("a policy's name has 1 to 128 printable ASCII characters, without spaces, quotes and backslashes")]
    Name,
    /// There are too few or too many limits.
    #[error("a policy has 1 to 8 limits: this one has {limits} or more")]
    Limits {
        /// How many were seen.
        limits: usize,
    },
    /// There is not one burst for each limit.
    #[error("{bursts} bursts for {limits} limits: give one for each limit, in order")]
    Bursts {
        /// How many bursts there are, or one more than can be.
        bursts: usize,
        /// How many limits there are.
        limits: usize,
    },
    /// Two limits have the same window.
    #[error("a second limit has the window of `{limit}`: keep the smaller of the two")]
    SameWindow {
        /// The second one.
        limit: Limit,
    },
}
