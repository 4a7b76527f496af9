//! The caller's side: staying under somebody else's limit.
//!
//! A [`Budget`] is what one may spend: by one policy or several, in this process or shared through Redis.
//! [`acquire`](Budget::acquire) waits in turn until a call fits, and a [`Permit`] is what it gives: the call may be made now.
//! What the server says of its own limits is obeyed ([`Permit::obey`]): a key that is told to wait waits, and so does everyone
//! behind it. Costs that are known only afterwards are reserved, then [settled](Permit::settle).
//!
//! ```
//! use std::time::Duration;
//! use tidegate::{Cost, Key, Policy};
//! use tidegate_tower::caller::Budget;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let budget = Budget::new(Policy::new("upstream", ["100/1m".parse()?])?).within(Duration::from_secs(30));
//! let key = Key::new("api.example.com")?;
//! let permit = budget.acquire(&key, Cost::ONE).await?;
//! // … make the call, and mind what it says:
//! # let response = http::Response::new(());
//! permit.obey(response.status(), response.headers()).await;
//! # Ok(())
//! # }
//! ```
//!
//! Callers sleep by tokio's clock. A test that pauses it gives the limiter the same one: `Limiter::new(…).with_clock(Clock::from_fn(…))`.
//!
//! [`Budget::layer`] does all of it around a tower service: hyper's client, tonic's channel, reqwest's client.

mod budget;
mod call;
mod layer;
mod pauses;
mod permit;
mod reservation;
mod turns;
mod word;

pub use budget::{AcquireError, Budget};
pub use call::{Call, Operation};
pub use layer::{BudgetLayer, BudgetService, CallError, Told};
pub use permit::{Permit, SettleError};
pub use word::wait_asked;
