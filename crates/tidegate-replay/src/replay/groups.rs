//! [`GroupAnalysis`]: the demand of the clients in each group.

use std::{cmp::Reverse, time::Duration};

use super::{
    client_counts::Column,
    demand_analysis::DemandAnalysis,
    group_numbers::{GroupNumbers, MAX_GROUPS},
};
use crate::{
    findings::{GroupFindings, GroupedFindings},
    logs::{Request, display_key},
};

/// Demand of the members of all groups.
pub(super) struct GroupAnalysis(DemandAnalysis);

impl GroupAnalysis {
    pub(super) fn new(windows: &[Duration]) -> Self {
        Self(DemandAnalysis::new(windows, 0))
    }

    /// Records a request of a member.
    pub(super) fn record(&mut self, member: u32, request: &Request<'_>) {
        self.0.record(member, request);
    }

    /// Returns the suggestions for the groups with the most requests.
    pub(super) fn findings(&self, by: String, numbers: &GroupNumbers, shown: usize) -> GroupedFindings {
        let counts = &self.0.counts;
        // One more for the requests of groups beyond the maximum.
        let mut groups: Vec<(u32, u64, u64)> = (0..=GroupNumbers::overflow()).map(|group| (group, 0, 0)).collect();
        for (member, requests) in (0..).zip(counts.column(Column::Requests)) {
            let (_, members, of_group) = &mut groups[numbers.group_of(member) as usize];
            *members += 1;
            *of_group += requests;
        }
        groups.retain(|(_, members, _)| *members > 0);
        groups.sort_by_key(|(group, _, requests)| (Reverse(*requests), *group));
        groups.truncate(shown);
        let mut set_of_group: Vec<Option<usize>> = vec![None; MAX_GROUPS + 1];
        for (set, (group, ..)) in groups.iter().enumerate() {
            set_of_group[*group as usize] = Some(set);
        }
        let curves = self.0.curves(groups.len(), |member| set_of_group[numbers.group_of(member) as usize]);
        let group = |((group, clients, requests), curves)| GroupFindings {
            name: numbers.name(group).map(display_key),
            clients,
            requests,
            curves,
        };
        GroupedFindings {
            by,
            count: numbers.len() as u64,
            overflow: numbers.has_overflow().then_some(MAX_GROUPS as u64),
            groups: groups.into_iter().zip(curves).map(group).collect(),
        }
    }
}
