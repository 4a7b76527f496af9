//! [`Durations`]: how long decisions took, by policy and transport.
//!
//! A policy takes 1.8 KB of memory here and up to 63 lines of a scrape. So only [`MAX_POLICIES`] policies have a label of
//! their own; further policies share one label.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType, registry::Unit};

use super::{DurationCounts, Latency, Transport};

/// Maximum number of policies with a label of their own.
pub(super) const MAX_POLICIES: usize = 64;

/// The label of all further policies.
const OTHERS: &str = "(others)";

/// The durations of one policy, by transport in the order of [`Transport::ALL`].
pub(super) type PolicyDurations = [Latency; 3];

/// The durations of all policies.
#[derive(Debug, Default)]
pub(super) struct Durations(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    policies: BTreeMap<Arc<str>, Arc<PolicyDurations>>,
    others: Arc<PolicyDurations>,
    /// The counts of policies that are no longer configured.
    retired: DurationCounts,
}

impl Durations {
    /// The durations of a policy. The same name always returns the same durations.
    pub(super) fn of(&self, policy: &str) -> Arc<PolicyDurations> {
        let mut inner = self.0.lock();
        if let Some(known) = inner.policies.get(policy) {
            return Arc::clone(known);
        }
        if inner.policies.len() >= MAX_POLICIES {
            return Arc::clone(&inner.others);
        }
        Arc::clone(inner.policies.entry(policy.into()).or_default())
    }

    /// Removes a policy that is no longer configured.
    pub(super) fn remove(&self, policy: &str) {
        let mut inner = self.0.lock();
        if let Some(gone) = inner.policies.remove(policy) {
            inner.retired = gone.iter().fold(inner.retired, |sum, one| sum.plus(&one.counts()));
        }
    }

    /// The counts of all policies together.
    pub(super) fn total(&self) -> DurationCounts {
        let inner = self.0.lock();
        let each = inner.policies.values().chain([&inner.others]).flat_map(|policy| policy.iter());
        each.fold(inner.retired, |sum, one| sum.plus(&one.counts()))
    }
}

/// The collector of a registry.
#[derive(Debug)]
pub(super) struct DurationCollector(pub(super) Arc<Durations>);

impl Collector for DurationCollector {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Duration of decisions, from when their request was read, by policy and transport";
        let mut family = out.encode_descriptor("decision", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        let inner = self.0.0.lock();
        for (policy, durations) in
            inner.policies.iter().map(|(name, one)| (&**name, one)).chain([(OTHERS, &inner.others)])
        {
            for (transport, latency) in Transport::ALL.iter().zip(durations.iter()) {
                let counts = latency.counts();
                // A scrape has no lines for a transport that was never used with a policy.
                if counts.total() > 0 {
                    let labels = [("policy", policy), ("transport", transport.name())];
                    let mut encoder = family.encode_family(&labels)?;
                    encoder.encode_histogram::<[(&str, &str); 0]>(
                        latency.seconds(),
                        counts.total(),
                        &counts.octaves(),
                        None,
                    )?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Durations, MAX_POLICIES};

    #[test]
    fn policies_beyond_the_maximum_share_a_label_and_removal_keeps_the_total() {
        let durations = Durations::default();
        for number in 0..MAX_POLICIES + 3 {
            durations.of(&format!("policy-{number}"))[0].observe(5_000);
        }
        let beyond = durations.of("policy-64");
        assert!(Arc::ptr_eq(&beyond, &durations.of("policy-66")) && beyond[0].counts().total() == 3);
        durations.remove("policy-1");
        assert_eq!(durations.total().total(), MAX_POLICIES as u64 + 3);
        assert!(!Arc::ptr_eq(&beyond, &durations.of("policy-64")), "there is room for one more");
    }
}
