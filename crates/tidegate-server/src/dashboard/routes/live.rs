//! The state of the service each second, as server-sent events.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Extension,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse,
        sse::{Event, Sse},
    },
};
use futures_util::{StreamExt as _, stream};
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;
use tidegate::Key;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{
    super::{CurrentState, KeyDenials, KeyPolicies, Overview, PolicyHits, SecondSummary, Tick, data::Dashboard},
    overview::{DEFAULT_SECONDS, journal},
};
use crate::{
    auth::{Access, Login},
    context::Context,
    service::{KeyVisibility, Refusal},
    transports::http::{
        Caller, Problem, Request, key_state, openapi, policy_and_key,
        query::{Query, wrong},
    },
};

/// Seconds between two searches of the policies for the watched key.
const SEARCH_INTERVAL: u32 = 5;

/// A live stream to one viewer.
struct LiveStream {
    context: Arc<Context>,
    dashboard: Arc<Dashboard>,
    visibility: KeyVisibility,
    /// The login that gives access.
    login: Option<Login>,
    policy: Option<String>,
    subject: Option<Subject>,
    ticks: watch::Receiver<u64>,
    last_event: Option<u64>,
    _permit: OwnedSemaphorePermit,
    _counted: CountedViewer,
}

/// The key that a viewer watches.
struct Subject {
    key: Key<'static>,
    /// Whether the viewer knows only the hash of the key.
    is_hash: bool,
    /// Seconds until the policies are searched for the key again.
    search_after: u32,
}

/// A viewer that is counted in the metrics until it is dropped.
struct CountedViewer(Gauge);

impl CountedViewer {
    fn new(viewers: &Gauge) -> Self {
        viewers.inc();
        Self(viewers.clone())
    }
}

impl Drop for CountedViewer {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Sends the overview, and then the changes of each second; also those of a policy and of a key, if they are named.
#[utoipa::path(
    get, path = "/v1/live", tag = "dashboard",
    params(
        ("policy" = Option<String>, Query, description = "Also send the most denied keys of this policy: events `hits`"),
        ("list" = Option<bool>, Query, description = "Whether a single value is a list, too"),
        ("key" = Option<Vec<String>>, Query, description = "Also send the state of this key under the policy: events `key`, `denials` and `policies`, which need the admin token if there is one"),
        ("hash" = Option<String>, Query, description = "The hash of the key, instead of `key`, if the policy hides its keys"),
    ),
    responses(
        (status = 200, description = "Events `overview` (once, as /v1/overview), `tick`, `hits` (as /v1/hits), `key` (as /v1/inspect), `denials` (KeyDenials), `policies` (KeyPolicies, every 5 seconds) and `problem`", body = Tick, content_type = "text/event-stream"),
        openapi::Problems,
    )
)]
pub(super) async fn live(
    State(context): State<Arc<Context>>,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    caller: Caller,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Problem> {
    let query = Query::parse(query.as_deref(), &["policy", "key", "list", "hash"])?;
    let policy = query.only("policy")?.map(str::to_owned);
    let (key, hash, is_list) = (query.all("key"), query.only("hash")?, query.is("list")?);
    let has_key = !key.is_empty() || hash.is_some();
    caller.require(&context, &headers, if has_key { Access::Admin } else { Access::Usage })?;
    let subject = match &policy {
        Some(policy) => {
            let active = context.service.active_policies();
            active.find(policy)?;
            let request = match hash {
                Some(_) if !key.is_empty() => {
                    return Err(wrong("hash", "`key` and `hash` exclude each other: use one"));
                }
                Some(hash) => Request::of_hash(policy, hash),
                None => Request::of_query(policy, key, is_list),
            };
            if has_key {
                let (_, key) = policy_and_key(&context.service, &active, &request).await?;
                Some(Subject { key: key.into_owned(), is_hash: hash.is_some(), search_after: 0 })
            } else {
                None
            }
        }
        None if has_key => return Err(wrong("policy", "`key` needs the policy, too: set `policy`")),
        None => None,
    };
    let Some(permit) = dashboard.stream_permit(caller.is_admin || context.settings.tokens.admin.is_none()) else {
        let message = "too many live streams are open: close a page, or poll /v1/overview";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "", message));
    };
    let stop = context.stop.clone();
    let live = LiveStream {
        ticks: dashboard.ticks(),
        _counted: CountedViewer::new(&context.service.metrics().viewers),
        context,
        dashboard,
        visibility: caller.visibility,
        login: caller.login,
        policy,
        subject,
        last_event: None,
        _permit: permit,
    };
    let events = stream::unfold(live, |mut live| async {
        let events = live.next().await?;
        Some((stream::iter(events.into_iter().map(Ok::<_, Infallible>)), live))
    });
    // A live stream must not delay the stop of the service.
    let events = events.flatten().take_until(async move { stop.cancelled().await });
    // This header disables buffering in proxies, which would delay the events.
    Ok(([("x-accel-buffering", "no")], Sse::new(events)))
}

impl LiveStream {
    /// Returns the next events; `None` at the end of the login.
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.has_ended() {
            return None;
        }
        let mut events = Vec::new();
        match self.last_event {
            None => {
                // Before the overview is made, so that later changes are sent after it.
                self.ticks.mark_unchanged();
                let overview = Overview::new(&self.context.service, &self.dashboard, self.visibility, DEFAULT_SECONDS);
                self.last_event = Some(overview.journal.last().map_or(0, |line| line.id));
                events.push(event("overview", &overview));
            }
            Some(last_event) => {
                self.ticks.changed().await.ok()?;
                if self.has_ended() {
                    return None;
                }
                let service = &self.context.service;
                let journal = journal(service, &self.dashboard, self.visibility, last_event);
                self.last_event = Some(journal.last().map_or(last_event, |line| line.id));
                let now = CurrentState::new(service, &self.dashboard, self.visibility);
                let point = SecondSummary::latest(&self.dashboard);
                events.push(event("tick", &Tick { now, point, journal }));
            }
        }
        if let Some(policy) = &self.policy {
            events.push(self.hits(policy).await);
            if let Some(subject) = &self.subject {
                self.add_key(policy, subject, &mut events).await;
            }
        }
        if let Some(subject) = &mut self.subject {
            subject.search_after = subject.search_after.checked_sub(1).unwrap_or(SEARCH_INTERVAL - 1);
        }
        Some(events)
    }

    fn has_ended(&self) -> bool {
        self.login.is_some_and(|login| self.context.logouts.has_ended(login, self.context.service.now_s()))
    }

    async fn hits(&self, policy: &str) -> Event {
        match PolicyHits::new(&self.context.service, &self.dashboard, policy, self.visibility).await {
            Ok(hits) => event("hits", &hits),
            Err(refusal) => event("problem", &Problem::from(refusal)),
        }
    }

    async fn add_key(&self, policy: &str, subject: &Subject, events: &mut Vec<Event>) {
        let (service, dashboard) = (&self.context.service, &*self.dashboard);
        let problem = |refusal: Refusal| event("problem", &Problem::from(refusal));
        let state = key_state(service, policy, &subject.key, self.visibility).await;
        events.push(state.map_or_else(problem, |state| event("key", &state)));
        let denials = KeyDenials::new(service, dashboard, policy, &subject.key);
        events.push(denials.map_or_else(problem, |denials| event("denials", &denials)));
        if subject.search_after == 0 {
            let found = KeyPolicies::new(service, dashboard, &subject.key, subject.is_hash, self.visibility).await;
            events.push(event("policies", &found));
        }
    }
}

fn event(name: &str, data: &impl Serialize) -> Event {
    Event::default().event(name).json_data(data).expect("the types of the dashboard are JSON")
}
