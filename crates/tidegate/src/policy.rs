//! [`Policy`]: a name, one or more limits, an algorithm and a mode.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use siphasher::sip128::SipHasher13;

use crate::{
    algorithm::{Algorithm, AlgorithmKind, Burst},
    algorithms::gcra,
    duration_text::format_duration,
    failure::{OnStoreFailure, Share},
    layout::{Layout, LimitSpec},
    limit::Limit,
    reservation::ReservationBounds,
};

/// The maximum number of limits of a policy.
pub(crate) const MAX_LIMITS: usize = 8;

const MAX_NAME: usize = 128;

/// How long a node may remember a denial of a shared store, unless a policy says otherwise.
const DENY_CACHE: Duration = Duration::from_secs(1);

/// Whether a policy denies requests.
///
/// ```
/// use tidegate::Mode;
///
/// assert_eq!("shadow".parse(), Ok(Mode::Shadow));
/// assert_eq!(Mode::Enforce.to_string(), "enforce");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Mode {
    /// Decides and denies.
    #[default]
    Enforce,
    /// Decides and counts like `Enforce`, but admits every request. The decision says whether it would have been denied.
    Shadow,
}

impl Mode {
    /// The name of the mode in every protocol and configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        let modes = [Self::Enforce, Self::Shadow];
        modes.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| ModeError { text: text.to_owned() })
    }
}

/// The text is not a [`Mode`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a mode: use enforce or shadow")]
#[non_exhaustive]
pub struct ModeError {
    /// The given text.
    pub text: String,
}

/// Limits that are decided together. The name of the policy identifies their state.
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
    specs: Arc<[LimitSpec]>,
    layout: Arc<Layout>,
    identity: Identity,
    one_limit: Option<OneLimit>,
    has_in_flight_limit: bool,
    /// Whether a caller supplied the limits. The states of such policies have their own bounds.
    supplied_by_caller: bool,
    on_store_failure: OnStoreFailure,
    reservation_bounds: ReservationBounds,
    /// The term of the leases of nodes.
    lease: Option<Duration>,
    deny_cache: Duration,
    /// The policy that decides in this process while the store fails, for [`OnStoreFailure::Local`].
    local: Option<Arc<Policy>>,
}

/// Everything that decides a request under a policy of one limit, in one place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneLimit {
    pub(crate) limit: Limit,
    pub(crate) spec: LimitSpec,
    pub(crate) kind: AlgorithmKind,
    pub(crate) layout_id: u64,
    pub(crate) mode: Mode,
}

/// Identifies the state of a policy: a digest for plain keys and one for joined keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) plain: u128,
    pub(crate) joined: u128,
}

impl Policy {
    /// Creates a policy that enforces `limits` by the exact sliding log.
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

    /// Creates a policy of limits supplied by a caller. Its state belongs to the key, the algorithm and the windows, so
    /// that callers with other limits don't overwrite each other. It is
    /// [supplied by a caller](Self::supplied_by_caller).
    ///
    /// # Errors
    /// If there are no limits or more than 8, or if two of them have the same window.
    pub fn unnamed(limits: impl IntoIterator<Item = Limit>) -> Result<Self, PolicyError> {
        Self::assemble(None, limits)
    }

    fn assemble(name: Option<Arc<str>>, limits: impl IntoIterator<Item = Limit>) -> Result<Self, PolicyError> {
        let limits: Arc<[Limit]> = limits.into_iter().take(MAX_LIMITS + 1).collect();
        match limits.len() {
            0 => return Err(PolicyError::NoLimits),
            1..=MAX_LIMITS => {}
            _ => return Err(PolicyError::TooManyLimits),
        }
        for (i, limit) in limits.iter().enumerate() {
            if limits[..i].iter().any(|other| other.window() == limit.window()) {
                return Err(PolicyError::SameWindow { limit: *limit });
            }
        }
        let layout = Layout::new(Algorithm::default(), &limits);
        let has_in_flight_limit = limits.iter().any(Limit::is_in_flight);
        let policy = Self {
            identity: Identity::new(name.as_deref(), &layout, has_in_flight_limit),
            layout: Arc::new(layout),
            supplied_by_caller: name.is_none(),
            name,
            limits,
            algorithm: Algorithm::default(),
            mode: Mode::default(),
            specs: Arc::default(),
            one_limit: None,
            has_in_flight_limit,
            on_store_failure: OnStoreFailure::default(),
            reservation_bounds: ReservationBounds::default(),
            lease: None,
            deny_cache: DENY_CACHE,
            local: None,
        };
        Ok(policy.with_algorithm(Algorithm::default()))
    }

    /// The same policy with another algorithm.
    #[must_use]
    pub fn with_algorithm(mut self, algorithm: Algorithm) -> Self {
        let layout = Layout::new(algorithm, &self.limits);
        let capacity = |limit: &Limit| match algorithm {
            Algorithm::Gcra(Some(burst)) if !limit.is_in_flight() => burst.get(),
            _ => limit.max(),
        };
        let capacities: Vec<u64> = self.limits.iter().map(capacity).collect();
        self.algorithm = algorithm;
        self.identity = Identity::new(self.name.as_deref(), &layout, self.has_in_flight_limit);
        self.layout = Arc::new(layout);
        self.with_capacities(&capacities)
    }

    /// The same policy with these capacities, one for each limit.
    fn with_capacities(mut self, capacities: &[u64]) -> Self {
        let limits = self.limits.iter().zip(capacities);
        let windowed = limits.clone().filter(|(limit, _)| !limit.is_in_flight());
        let is_gcra = self.layout.kind() == AlgorithmKind::Gcra;
        let capacity = |(limit, capacity): (&Limit, &u64)| {
            if is_gcra { (*capacity).min(gcra::max_units(*limit)) } else { *capacity }
        };
        let mut specs_of_windows = self.layout.specs(windowed.map(capacity)).into_iter();
        let spec = |(limit, capacity): (&Limit, &u64)| {
            if limit.is_in_flight() { Some(LimitSpec::in_flight(*capacity)) } else { specs_of_windows.next() }
        };
        let specs: Vec<LimitSpec> = limits.filter_map(spec).collect();
        self.one_limit = match (&*self.limits, &*specs) {
            ([limit], [spec]) if !limit.is_in_flight() => Some(OneLimit {
                limit: *limit,
                spec: *spec,
                kind: self.layout.kind(),
                layout_id: self.layout.id(),
                mode: self.mode,
            }),
            _ => None,
        };
        self.specs = specs.into();
        self.local = None;
        let choice = self.on_store_failure;
        self.with_on_store_failure(choice)
    }

    /// The same policy with gcra and a burst for each limit with a window.
    ///
    /// # Errors
    /// If there is not one burst for each limit with a window.
    pub fn with_bursts(self, bursts: impl IntoIterator<Item = Burst>) -> Result<Self, PolicyError> {
        let bursts: Vec<u64> = bursts.into_iter().take(MAX_LIMITS + 1).map(Burst::get).collect();
        let limits = self.limits.iter().filter(|limit| !limit.is_in_flight()).count();
        if bursts.len() != limits {
            return Err(PolicyError::Bursts { bursts: bursts.len(), limits });
        }
        let policy = self.with_algorithm(Algorithm::Gcra(None));
        let mut bursts = bursts.into_iter();
        let capacity = |limit: &Limit| if limit.is_in_flight() { Some(limit.max()) } else { bursts.next() };
        let capacities: Vec<u64> = policy.limits.iter().filter_map(capacity).collect();
        Ok(policy.with_capacities(&capacities))
    }

    /// The same policy, marked as one whose limits a caller supplied. A [`MemoryStore`](crate::MemoryStore) gives the
    /// states of all such policies a [share](crate::MemoryStoreBuilder::caller_share) of its keys and bytes, so that
    /// limits from callers do not affect other policies. Policies without a name are always marked.
    #[must_use]
    pub fn supplied_by_caller(mut self) -> Self {
        self.supplied_by_caller = true;
        let choice = self.on_store_failure;
        self.with_on_store_failure(choice)
    }

    /// The same policy in another mode.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        if let Some(one_limit) = &mut self.one_limit {
            one_limit.mode = mode;
        }
        let choice = self.on_store_failure;
        self.with_on_store_failure(choice)
    }

    /// The same policy with another behaviour when the store fails.
    #[must_use]
    pub fn with_on_store_failure(mut self, choice: OnStoreFailure) -> Self {
        self.on_store_failure = choice;
        self.local = match choice {
            OnStoreFailure::Local(share) => Some(Arc::new(self.share(share))),
            _ => None,
        };
        self
    }

    /// A policy with the same name and a share of every limit.
    pub(crate) fn share(&self, part: Share) -> Self {
        let mut shared = self.clone();
        shared.local = None;
        shared.on_store_failure = OnStoreFailure::default();
        shared.lease = None;
        shared.limits = self.limits.iter().map(|limit| limit.with_max(part.of(limit.max()))).collect();
        shared.layout = Arc::new(Layout::new(self.algorithm, &shared.limits));
        let capacities: Vec<u64> = self.specs.iter().map(|spec| part.of(spec.capacity)).collect();
        shared.with_capacities(&capacities)
    }

    /// The same policy with other bounds on its holds and leases.
    #[must_use]
    pub fn with_reservation_bounds(mut self, bounds: ReservationBounds) -> Self {
        self.reservation_bounds = bounds;
        let choice = self.on_store_failure;
        self.with_on_store_failure(choice)
    }

    /// The bounds on its holds and leases.
    pub fn reservation_bounds(&self) -> &ReservationBounds {
        &self.reservation_bounds
    }

    /// The same policy, whose nodes may lease units of a shared store for `term` and admit requests by themselves meanwhile.
    ///
    /// Only a store that leases does so; see the crate `tidegate-leases`. A limit is never exceeded, but units that a node
    /// has leased and not used are missing elsewhere, and each unit counts up to `term` longer.
    ///
    /// # Errors
    /// If the term is not within 1 ms and [`ReservationBounds::max_lease`], if it is longer than half of the shortest
    /// window, or if the policy has a limit on the units in open holds.
    pub fn with_lease(mut self, term: Duration) -> Result<Self, PolicyError> {
        if self.has_in_flight_limit {
            return Err(PolicyError::LeaseInFlight);
        }
        if self.reservation_bounds.lease_ttl(term).is_err() {
            return Err(PolicyError::LeaseRange { term, max: self.reservation_bounds.max_lease() });
        }
        let shortest = self.limits.iter().map(Limit::window).min().unwrap_or_default();
        if term > shortest / 2 {
            return Err(PolicyError::LeaseTerm { term, max: shortest / 2 });
        }
        self.lease = Some(term);
        Ok(self)
    }

    /// The term of the leases of nodes, if they may lease units.
    #[inline]
    pub fn lease(&self) -> Option<Duration> {
        self.lease
    }

    /// The same policy with another longest time for which a node that leases units may repeat a denial of the shared store
    /// without asking again: 1 s by default, 0 for never.
    #[must_use]
    pub fn with_deny_cache(mut self, longest: Duration) -> Self {
        self.deny_cache = longest;
        self
    }

    /// The longest time for which a node that leases units may repeat a denial.
    pub fn deny_cache(&self) -> Duration {
        self.deny_cache
    }

    /// Whether some limit is on the units in open holds. Requests under such a policy are reserved, not checked.
    pub fn has_in_flight_limit(&self) -> bool {
        self.has_in_flight_limit
    }

    /// The name; `None` for limits supplied by a caller without a name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn shared_name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    pub(crate) fn shared_limits(&self) -> &Arc<[Limit]> {
        &self.limits
    }

    /// Whether a caller supplied the limits.
    #[inline]
    pub fn is_supplied_by_caller(&self) -> bool {
        self.supplied_by_caller
    }

    /// The limits, in the given order.
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

    /// The behaviour when the store fails.
    pub fn on_store_failure(&self) -> OnStoreFailure {
        self.on_store_failure
    }

    /// The share of this policy that decides in this process while the store fails, for [`OnStoreFailure::Local`].
    pub(crate) fn local(&self) -> Option<&Policy> {
        self.local.as_deref()
    }

    /// The maximum number of units in use under `limit`: its burst for gcra, otherwise its max.
    pub fn capacity(&self, limit: Limit) -> u64 {
        let own = self.limits.iter().position(|own| own.window() == limit.window());
        own.map_or(limit.max(), |i| self.specs[i].capacity)
    }

    /// Everything that decides a request, if the policy has one limit.
    #[inline]
    pub(crate) fn one_limit(&self) -> Option<&OneLimit> {
        self.one_limit.as_ref()
    }

    pub(crate) fn specs(&self) -> &[LimitSpec] {
        &self.specs
    }

    pub(crate) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Whether both decide by the same state, algorithm, limits and mode, with leases of the same term.
    #[inline]
    pub(crate) fn decides_as(&self, other: &Self) -> bool {
        let has_same_specs = Arc::ptr_eq(&self.specs, &other.specs) || self.specs == other.specs;
        has_same_specs
            && self.identity == other.identity
            && self.layout.id() == other.layout.id()
            && (self.mode, self.lease) == (other.mode, other.lease)
    }

    /// Allocated bytes, shared with copies of the policy.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.limits) + size_of_val(&*self.specs) + self.layout.heap_bytes()
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn identity_text(&self) -> String {
        identity_text(self.name.as_deref(), &self.layout, self.has_in_flight_limit)
    }
}

/// The text that identifies the state of a policy. Policies with the same text share the state of a key.
fn identity_text(name: Option<&str>, layout: &Layout, has_in_flight: bool) -> String {
    match name {
        Some(name) => format!("named {name}"),
        None => format!("unnamed {}", layout.description(has_in_flight)),
    }
}

impl Identity {
    fn new(name: Option<&str>, layout: &Layout, has_in_flight: bool) -> Self {
        let text = identity_text(name, layout, has_in_flight);
        // The digest need not be secret, because it is combined with a keyed hash.
        let digest = |domain| {
            let hasher = SipHasher13::new_with_keys(0x7469_6465, domain);
            hasher.hash(text.as_bytes()).as_u128()
        };
        Self { plain: digest(1), joined: digest(2) }
    }
}

/// The reason why a [`Policy`] is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The name is invalid.
    #[error("the name of a policy has 1 to 128 printable ASCII characters, without spaces, quotes and backslashes")]
    Name,
    /// There are no limits.
    #[error("the policy has no limits: give it 1 to 8, such as 100/1m")]
    NoLimits,
    /// There are too many limits.
    #[error("the policy has more than 8 limits: give it 1 to 8")]
    TooManyLimits,
    /// There is not one burst for each limit.
    #[error("{bursts} bursts for {limits} limits: give one for each limit with a window, in order")]
    Bursts {
        /// The number of bursts that were read.
        bursts: usize,
        /// The number of limits.
        limits: usize,
    },
    /// A policy with a limit on the units in open holds can't have leases.
    #[error("a policy with an `inflight` limit can't have leases: use separate policies")]
    LeaseInFlight,
    /// The term of leases is out of range.
    #[error("a lease of {} is out of range: use 1ms to {}", format_duration(*.term), format_duration(*.max))]
    LeaseRange {
        /// The given term.
        term: Duration,
        /// The longest lease of the policy.
        max: Duration,
    },
    /// The term of leases is too long for the shortest window.
    #[error(
        "a lease of {} is longer than half of the shortest window: use at most {}, better a fifth of that",
        format_duration(*.term),
        format_duration(*.max)
    )]
    LeaseTerm {
        /// The given term.
        term: Duration,
        /// Half of the shortest window.
        max: Duration,
    },
    /// Two limits have the same window.
    #[error("two limits have the same window as `{limit}`: keep the smaller one")]
    SameWindow {
        /// The second limit.
        limit: Limit,
    },
}
