//! [`RequestSource`]: where the requests of a replay come from, which is a log or simulated traffic.

use std::{ops::ControlFlow, sync::Arc};

use crate::{
    logs::{ClientKey, InputSummary, LogReader, Progress, Request},
    simulate::traffic::{Traffic, TrafficError},
};

pub(super) trait RequestSource: Send {
    /// Returns the name of the key that identifies a client.
    fn client_key(&self) -> String;

    /// Returns the name of the field by which requests are grouped.
    fn group(&self) -> Option<String>;

    fn has_durations(&self) -> bool;

    /// Returns the progress, which can stop the source.
    fn progress(&self) -> Arc<Progress>;

    /// Calls `each` with every request in order of time.
    fn for_each(self, each: impl FnMut(&Request<'_>) -> ControlFlow<()>) -> InputSummary;
}

impl RequestSource for LogReader {
    fn client_key(&self) -> String {
        self.client_key().to_string()
    }

    fn group(&self) -> Option<String> {
        self.group().map(ClientKey::to_string)
    }

    fn has_durations(&self) -> bool {
        self.has_durations()
    }

    fn progress(&self) -> Arc<Progress> {
        self.progress()
    }

    fn for_each(self, each: impl FnMut(&Request<'_>) -> ControlFlow<()>) -> InputSummary {
        self.for_each(each)
    }
}

/// Simulated traffic whose options are valid.
pub(super) struct SimulatedSource<'t>(&'t Traffic);

impl<'t> SimulatedSource<'t> {
    pub(super) fn new(traffic: &'t Traffic) -> Result<Self, TrafficError> {
        traffic.validate()?;
        Ok(Self(traffic))
    }
}

impl RequestSource for SimulatedSource<'_> {
    fn client_key(&self) -> String {
        "client".to_owned()
    }

    fn group(&self) -> Option<String> {
        None
    }

    fn has_durations(&self) -> bool {
        self.0.mean_request_us > 0
    }

    fn progress(&self) -> Arc<Progress> {
        Arc::default()
    }

    fn for_each(self, mut each: impl FnMut(&Request<'_>) -> ControlFlow<()>) -> InputSummary {
        let Self(traffic) = self;
        let addresses: Vec<String> = (0..traffic.clients).map(|client| traffic.address(client)).collect();
        let mut summary = InputSummary {
            files: vec![format!("simulated traffic, {}", traffic.shape)],
            sorted: true,
            ..InputSummary::default()
        };
        for (position, request) in (0..).zip(traffic.requests().into_iter().flatten()) {
            summary.requests += 1;
            summary.lines += 1;
            summary.units = summary.units.saturating_add(request.cost);
            summary.from_us.get_or_insert(request.time_us);
            summary.to_us = Some(request.time_us);
            let request = Request {
                time_us: request.time_us,
                duration_us: request.duration_us,
                key: addresses[request.client as usize].as_bytes(),
                cost: request.cost,
                group: &[],
                position,
            };
            if each(&request).is_break() {
                break;
            }
        }
        summary
    }
}
