//! The caller's side: staying under the limit of an upstream server.
//!
//! A [`Budget`] is a quota for calls, by one policy or several, in this process or in a shared store.
//! [`acquire`](Budget::acquire) queues until a call fits, and returns a [`Permit`] for it. If the server's response
//! requests a wait, [`Permit::apply_response`] pauses the key, for all callers that share the budget. If the cost is
//! known only after the call, acquire an estimate and [settle](Permit::settle) it. To give the units back if the call fails or
//! the process dies, or to limit the number of calls at once, [reserve](Budget::reserve) it and [commit](HeldCall::commit).
//!
//! ```
//! use std::time::Duration;
//! use tidegate::{Cost, Key, Policy};
//! use tidegate_tower::caller::Budget;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let budget = Budget::new(Policy::new("upstream", ["100/1m".parse()?])?).with_max_wait(Duration::from_secs(30));
//! let key = Key::new("api.example.com")?;
//! let permit = budget.acquire(&key, Cost::ONE).await?;
//! // … make the call, and wait if the server requests it:
//! # let response = http::Response::new(());
//! permit.apply_response(response.status(), response.headers()).await;
//! # Ok(())
//! # }
//! ```
//!
//! Callers sleep by tokio's clock. A test that pauses it gives the limiter the same clock:
//! `Limiter::new(…).with_clock(Clock::from_fn(…))`.
//!
//! [`Budget::layer`] does all of this for a tower service: hyper's client, tonic's channel, reqwest's client.

mod acquire_error;
mod budget;
mod call;
mod fair_queue;
mod held_call;
mod layer;
mod pauses;
mod permit;
mod reservation;
mod server_wait;
mod wait;

pub use acquire_error::AcquireError;
pub use budget::Budget;
pub use call::{Call, Operation};
pub use held_call::HeldCall;
pub use layer::{BudgetLayer, BudgetService, CallError, HttpResponse};
pub use permit::{Permit, SettleError};
pub use server_wait::wait_from_headers;
