//! What the page, `tidegate top` and anybody else who looks on are told: `page` serves the files, `session` logs people in, `overview`
//! tells how the service is, `hits` whom a policy denies, and `live` all of it each second.

mod hits;
mod live;
mod overview;
mod page;
mod session;

pub(super) use hits::{__path_hits, hits};
pub(super) use live::{__path_live, live};
pub(super) use overview::{__path_overview, overview};
pub(super) use page::{asset, page};
pub(super) use session::{__path_log_in, __path_log_out, __path_session, forget_ticket, log_in, log_out, session};
