//! All of it each second, as server-sent events.

use std::{convert::Infallible, sync::Arc};

use axum::{
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse,
        sse::{Event, Sse},
    },
};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use utoipa::ToSchema;

use super::{
    super::{admin, guest::Guest, problem::Problem, query, request::Request},
    hits::ShownHits,
    overview::{Now, Overview, PAST, Point, ShownLine, journal},
};
use crate::{access::Access, door::House, insight::Eyes, session::Login};

/// What has changed in a second.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tick {
    #[serde(flatten)]
    now: Now,
    /// The second that has just ended.
    point: Option<Point>,
    /// Lines since the last event.
    journal: Vec<ShownLine>,
}

/// Somebody who looks on.
struct Onlooker {
    house: Arc<House>,
    eyes: Eyes,
    /// The login that gives access.
    login: Option<Login>,
    policy: Option<String>,
    key: Vec<String>,
    is_list: bool,
    ticks: watch::Receiver<u64>,
    last_line: Option<u64>,
    _place: OwnedSemaphorePermit,
}

/// The overview at once, and then each second what has changed; of a policy and of a key, too, if they are named.
#[utoipa::path(
    get, path = "/v1/live", tag = "dashboard",
    params(
        ("policy" = Option<String>, Query, description = "Also whom this policy hits: events `hits`"),
        ("list" = Option<bool>, Query, description = "Whether one key is a list, too"),
        ("key" = Option<Vec<String>>, Query, description = "Also the state of this key under it: events `key`, which need the admin token where there is one"),
    ),
    responses(
        (status = 200, description = "Events `overview` (once, as /v1/overview), `tick`, `hits` (as /v1/hits), `key` (as /v1/inspect) and `problem`", body = Tick, content_type = "text/event-stream"),
        super::super::openapi::Problems,
    )
)]
pub(crate) async fn live(
    State(house): State<Arc<House>>,
    guest: Guest,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<impl IntoResponse, Problem> {
    let query = query::read(query.as_deref().unwrap_or(""), &["policy", "key", "list"])?;
    let policy = query.only("policy")?.map(str::to_owned);
    let key: Vec<String> = query.all("key").into_iter().map(str::to_owned).collect();
    let is_list = query.is("list")?;
    guest.needs(&house, &headers, if key.is_empty() { Access::Usage } else { Access::Admin })?;
    match &policy {
        Some(policy) => {
            house.service.live().find(policy)?;
        }
        None if !key.is_empty() => {
            let message = "a key is looked at under a policy: name it with `policy`";
            return Err(Problem::new(StatusCode::BAD_REQUEST, "policy", message));
        }
        None => {}
    }
    let Some(place) = house.service.insight().place(guest.is_admin || house.settings.tokens.admin.is_none()) else {
        let message = "too many look on already: close a page, or ask /v1/overview now and then";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "", message));
    };
    let (ticks, stop) = (house.service.insight().ticks(), house.stop.clone());
    let onlooker = Onlooker {
        house,
        eyes: guest.eyes,
        login: guest.login,
        policy,
        key,
        is_list,
        ticks,
        last_line: None,
        _place: place,
    };
    let events = stream::unfold(onlooker, |mut onlooker| async {
        let events = onlooker.next().await?;
        Some((stream::iter(events.into_iter().map(Ok::<_, Infallible>)), onlooker))
    });
    // Nobody who looks on keeps a service from stopping.
    let events = events.flatten().take_until(async move { stop.cancelled().await });
    // A proxy that gathers what it passes on would hold back what is live.
    Ok(([("x-accel-buffering", "no")], Sse::new(events)))
}

impl Onlooker {
    /// What there is to tell next.
    async fn next(&mut self) -> Option<Vec<Event>> {
        if self.has_ended() {
            return None;
        }
        let mut events = Vec::new();
        match self.last_line {
            None => {
                // Before it is told, so that what comes meanwhile is told after it.
                self.ticks.mark_unchanged();
                let overview = Overview::new(&self.house.service, self.eyes, PAST);
                self.last_line = Some(overview.last_line());
                events.push(event("overview", &overview));
            }
            Some(last_line) => {
                self.ticks.changed().await.ok()?;
                if self.has_ended() {
                    return None;
                }
                let service = &self.house.service;
                let journal = journal(service, self.eyes, last_line);
                self.last_line = Some(journal.last().map_or(last_line, |line| line.id));
                events.push(event("tick", &Tick { now: Now::new(service), point: Point::latest(service), journal }));
            }
        }
        if let Some(policy) = &self.policy {
            events.push(self.hits(policy).await);
            if !self.key.is_empty() {
                events.push(self.key(policy).await);
            }
        }
        Some(events)
    }

    fn has_ended(&self) -> bool {
        self.login.is_some_and(|login| self.house.logouts.has_ended(login, self.house.service.now_s()))
    }

    async fn hits(&self, policy: &str) -> Event {
        match ShownHits::new(&self.house.service, policy, self.eyes).await {
            Ok(hits) => event("hits", &hits),
            Err(refusal) => event("problem", &Problem::from(refusal)),
        }
    }

    async fn key(&self, policy: &str) -> Event {
        let request = Request::of_query(policy, self.key.iter().map(String::as_str).collect(), self.is_list);
        match admin::look(&self.house, &request, self.eyes).await {
            Ok(shown) => event("key", &shown),
            Err(problem) => event("problem", &problem),
        }
    }
}

fn event(name: &str, told: &impl Serialize) -> Event {
    Event::default().event(name).json_data(told).expect("what is told is always JSON")
}
