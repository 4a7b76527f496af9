//! [`Hold`]: the units that are held while the command runs.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::LONGEST_PAUSE;
use crate::{
    arguments::RunArguments,
    client::{self, ApiRequest, exchange},
    output::print_error,
    reservations::whole_ms,
};

const NOT_ENFORCED: &str = "the store does not answer: the shared limit is not enforced for this run";

/// The units that are held, and the requests about them.
pub(super) struct Hold {
    arguments: Arc<RunArguments>,
    ttl_ms: u64,
    /// `None` before the first grant.
    id: Option<String>,
    /// Whether the units stay spent at the end.
    spends: bool,
    /// Whether the store granted the hold. Otherwise the failure choice did, perhaps without any hold.
    is_enforced: bool,
    renewal: Option<JoinHandle<Renewal>>,
    /// The last problem that was printed, so that it is printed once.
    reported: Option<String>,
}

/// The answer to an attempt to get a place.
pub(super) enum Place {
    Taken,
    Denied(Denial),
}

/// A response that grants nothing.
pub(super) struct Denial {
    pub(super) status: u16,
    pub(super) body: Value,
    /// Whether the units may be spent although nothing is granted, so that another attempt may spend them twice.
    pub(super) may_be_spent: bool,
}

/// A response that grants a hold.
struct Grant {
    id: String,
    is_enforced: bool,
}

impl Grant {
    fn of(body: &Value) -> Option<Self> {
        Some(Self { id: body["reservation"].as_str()?.to_owned(), is_enforced: body["degraded"] != true })
    }
}

/// The result of a renewal.
enum Renewal {
    Renewed,
    /// The hold had ended, and was taken again.
    TakenAgain(Grant),
    Failed(String),
}

impl Denial {
    /// The time until the next attempt, if waiting helps.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        if self.may_be_spent {
            return None;
        }
        let unavailable = (self.status == 503).then_some(LONGEST_PAUSE);
        self.body["retry_after_ms"].as_u64().map(Duration::from_millis).or(unavailable)
    }
}

impl Hold {
    pub(super) fn new(arguments: Arc<RunArguments>) -> anyhow::Result<Self> {
        let ttl_ms = whole_ms(arguments.ttl)?;
        let spends = arguments.spend;
        Ok(Self { arguments, ttl_ms, id: None, spends, is_enforced: true, renewal: None, reported: None })
    }

    /// Takes a place, if there is one.
    pub(super) async fn take(&mut self) -> anyhow::Result<Place> {
        let (arguments, ttl_ms, spends) = (Arc::clone(&self.arguments), self.ttl_ms, self.spends);
        if spends && arguments.wait.is_some() {
            // A reserve whose answer is lost may have spent its units, so it is sent only when it is likely to be answered.
            let arguments = Arc::clone(&arguments);
            let (status, body) = tokio::task::spawn_blocking(move || peek(&arguments)).await??;
            if body["allowed"] != true {
                return Ok(Place::Denied(Denial { status, body, may_be_spent: false }));
            }
        }
        let (status, body) = tokio::task::spawn_blocking(move || reserve(&arguments, ttl_ms, spends)).await??;
        match Grant::of(&body) {
            Some(Grant { id, is_enforced }) => {
                self.id = Some(id);
                self.is_enforced = is_enforced;
                if !is_enforced {
                    self.report(NOT_ENFORCED.to_owned());
                }
                Ok(Place::Taken)
            }
            None => Ok(Place::Denied(Denial { status, body, may_be_spent: spends && status == 503 })),
        }
    }

    /// Starts a renewal, unless one is under way.
    pub(super) fn renew_in_background(&mut self) {
        if let (None, Some(id)) = (&self.renewal, self.id.clone()) {
            let (arguments, ttl_ms) = (Arc::clone(&self.arguments), self.ttl_ms);
            self.renewal = Some(tokio::task::spawn_blocking(move || renew(&arguments, &id, ttl_ms)));
        }
    }

    /// Waits for the end of the renewal that is under way. Reports a problem once.
    pub(super) async fn renewed(&mut self) {
        let Some(renewal) = &mut self.renewal else { return std::future::pending().await };
        let renewal = renewal.await.unwrap_or_else(|error| Renewal::Failed(error.to_string()));
        self.renewal = None;
        match renewal {
            Renewal::Renewed => self.reported = None,
            Renewal::TakenAgain(grant) => self.taken_again(grant),
            Renewal::Failed(problem) => self.report(format!("the hold can't be renewed: {problem}")),
        }
    }

    /// Continues with a hold that was taken again.
    fn taken_again(&mut self, Grant { id, is_enforced }: Grant) {
        let (was_enforced, spends) = (self.is_enforced, self.spends);
        self.id = Some(id);
        self.is_enforced = is_enforced;
        // The units of a hold that the store granted stayed spent at its end.
        self.spends = spends && !was_enforced;
        self.report(match (was_enforced, is_enforced) {
            (_, false) => NOT_ENFORCED.to_owned(),
            (false, true) => "the store answers again, and the hold was taken".to_owned(),
            (true, true) => {
                let counted = if spends { ", and this run counts twice until it ends" } else { "" };
                format!("the hold had ended, and was taken again: another command may have run meanwhile{counted}")
            }
        });
    }

    /// Gives the units back, or spends them.
    pub(super) async fn end(mut self) {
        // A renewal may be about to take the hold again.
        if self.renewal.is_some() {
            self.renewed().await;
        }
        let Some(id) = self.id else { return };
        let (arguments, spends) = (Arc::clone(&self.arguments), self.spends);
        let ended = tokio::task::spawn_blocking(move || end(&arguments, &id, spends)).await;
        match ended.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(true) => {}
            // There may have been no hold.
            Ok(false) if !self.is_enforced => {}
            Ok(false) if spends => {
                print_error("the hold was not open any more: this run counts only if the hold ended by its ttl");
            }
            Ok(false) => print_error("the hold was not open any more: another command may have run meanwhile"),
            Err(problem) => print_error(format_args!("the hold can't be released, and ends by itself: {problem}")),
        }
    }

    fn report(&mut self, problem: String) {
        if self.reported.as_ref() != Some(&problem) {
            print_error(&problem);
            self.reported = Some(problem);
        }
    }
}

fn reserve(arguments: &RunArguments, ttl_ms: u64, spends: bool) -> anyhow::Result<(u16, Value)> {
    let mut body = subject(arguments);
    body["ttl_ms"] = json!(ttl_ms);
    // A run that is killed counts, too.
    body["expires"] = json!(spends.then_some("spent"));
    exchange(&ApiRequest::post("/v1/reserve", body), &arguments.target)
}

/// Returns the answer that a reserve would get. It spends nothing.
fn peek(arguments: &RunArguments) -> anyhow::Result<(u16, Value)> {
    exchange(&ApiRequest::post("/v1/peek", subject(arguments)), &arguments.target)
}

/// The fields of a request for the units.
fn subject(arguments: &RunArguments) -> Value {
    let choice = arguments.on_store_failure.as_deref();
    json!({
        "policy": arguments.policy,
        "limits": arguments.policy.is_none().then_some(&arguments.limit),
        "key": client::key(&arguments.key),
        "cost": arguments.cost,
        "on_store_failure": client::failure_choice(choice, &arguments.target, arguments.policy.as_deref()),
    })
}

fn renew(arguments: &RunArguments, id: &str, ttl_ms: u64) -> Renewal {
    let request = ApiRequest::post("/v1/renew", json!({ "reservation": id, "ttl_ms": ttl_ms }));
    match exchange(&request, &arguments.target) {
        Ok((200, body)) if body["known"] == true => Renewal::Renewed,
        Ok((200, _)) => take_again(arguments, ttl_ms),
        Ok((_, body)) => Renewal::Failed(problem(&body)),
        Err(error) => Renewal::Failed(format!("{error:#}")),
    }
}

/// Takes a hold again that has ended, because this process was stopped for some time or the state was lost. If nobody closes
/// it, its units are given back: a run that spends has usually done so with its first hold.
fn take_again(arguments: &RunArguments, ttl_ms: u64) -> Renewal {
    match reserve(arguments, ttl_ms, false) {
        Ok((_, body)) => match Grant::of(&body) {
            Some(grant) => Renewal::TakenAgain(grant),
            // Without the wait, which changes from one renewal to the next: a problem is printed once.
            None if body["reason"] == "limited" => {
                Renewal::Failed(format!("it has ended, and no place is free: {}", client::in_use_text(&body)))
            }
            None => Renewal::Failed(format!("it has ended, and was not granted again: {}", problem(&body))),
        },
        Err(error) => Renewal::Failed(format!("{error:#}")),
    }
}

/// Closes the hold. A repeated request is harmless, so it is sent again if there is no answer. Returns whether the hold
/// was open.
fn end(arguments: &RunArguments, id: &str, spends: bool) -> Result<bool, String> {
    let request = if spends {
        ApiRequest::post("/v1/commit", json!({ "reservation": id, "actual": arguments.cost.unwrap_or(1) }))
    } else {
        ApiRequest::post("/v1/release", json!({ "reservation": id }))
    };
    let once = || match exchange(&request, &arguments.target) {
        Ok((200, body)) => Ok(body["known"] == true),
        Ok((_, body)) => Err(problem(&body)),
        Err(error) => Err(format!("{error:#}")),
    };
    // The first request may have closed the hold.
    once().or_else(|_| once().map(|_| true))
}

fn problem(body: &Value) -> String {
    match body["error"].as_str() {
        Some(error) => crate::visible::visible(error),
        None => client::decision_text(body).trim_end().to_owned(),
    }
}
