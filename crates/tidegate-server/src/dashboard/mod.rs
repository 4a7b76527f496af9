//! The dashboard: a page that shows the service, and the API of the page and of `tidegate top`.
//!
//! `asset` has the files of the page, `data` collects what the service reports to its observer, `routes` answers requests, and `dto`
//! has the JSON types. The rest of the server does not depend on the dashboard: a `Dashboard` is an observer and has routes.

mod asset;
mod data;
mod dto;
mod routes;

pub(crate) use self::data::Dashboard;
pub use self::dto::{
    CurrentState, DecisionHistory, DegradedDecisions, DeniedKey, HardestKey, JournalLine, KeyDenials, KeyLease,
    KeyPolicies, KeyUnderPolicy, KeysAre, LeaseState, NearLimitKey, NodeState, OutcomeTotals, Overview, PolicyHistory,
    PolicyHits, PolicySecond, PolicySummary, RecentDecisions, SecondSummary, StoreErrorCount, StoreState, Tick,
};
