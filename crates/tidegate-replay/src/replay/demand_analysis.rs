//! [`DemandAnalysis`]: the demand of clients in every window, and the curves and suggestions that follow from it.

use std::time::Duration;

use super::{
    client_counts::{ClientCounts, Column},
    curve,
    demand::Demand,
    denial_count,
    recording::{RecordedRequest, Recording},
};
use crate::{findings::Curve, logs::Request};

pub(super) struct DemandAnalysis {
    pub(super) demands: Vec<Demand>,
    pub(super) counts: ClientCounts,
    /// Units that the client of the current request has requested in each window.
    pub(super) in_windows: Vec<u64>,
    recording: Recording,
}

impl DemandAnalysis {
    pub(super) fn new(windows: &[Duration], policies: usize) -> Self {
        Self {
            demands: windows.iter().copied().map(Demand::new).collect(),
            counts: ClientCounts::new(windows.len(), policies),
            in_windows: vec![0; windows.len()],
            recording: Recording::default(),
        }
    }

    #[inline]
    pub(super) fn record(&mut self, client: u32, request: &Request<'_>) {
        let Request { time_us, cost, .. } = *request;
        *self.counts.get_mut(client, Column::Requests) += 1;
        let units = self.counts.get_mut(client, Column::Units);
        *units = units.saturating_add(cost);
        for (number, demand) in self.demands.iter_mut().enumerate() {
            let units = demand.record(client, time_us, cost);
            self.in_windows[number] = units;
            let peak = self.counts.get_mut(client, Column::Peak(number));
            *peak = units.max(*peak);
        }
        if !self.demands.is_empty() {
            let counts = &self.counts;
            self.recording
                .push(RecordedRequest { client, time_us, cost }, |client| counts.get(client, Column::Peak(0)));
        }
    }

    /// Returns the curves of several sets of clients. `set_of` returns the number of the set that a client belongs to.
    pub(super) fn curves(&self, sets: usize, set_of: impl Fn(u32) -> Option<usize>) -> Vec<Vec<Curve>> {
        let mut curves: Vec<Vec<Curve>> = vec![Vec::new(); sets];
        for (number, demand) in self.demands.iter().enumerate() {
            let mut clients: Vec<Vec<(u64, u64)>> = vec![Vec::new(); sets];
            let peaks = self.counts.column(Column::Peak(number)).zip(self.counts.column(Column::Requests));
            for (client, peak) in (0..).zip(peaks) {
                if let Some(set) = set_of(client) {
                    clients[set].push(peak);
                }
            }
            for (curves, clients) in curves.iter_mut().zip(clients) {
                curves.push(curve::compute(demand.window, clients));
            }
        }
        denial_count::count(&mut curves, &self.recording, &self.counts, set_of);
        curves
    }
}
