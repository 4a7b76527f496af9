//! [`Case`]: policies and steps, read from any bytes.

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use tidegate::{Algorithm, Buckets, Burst, Limit, Mode, Policy};

/// Two policies, and what happens under them.
#[derive(Debug)]
pub struct Case {
    pub(super) policies: [PolicyInput; 2],
    pub(super) steps: Vec<Step>,
}

impl<'a> Arbitrary<'a> for Case {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let policies = bytes.arbitrary()?;
        let mut steps = Vec::new();
        // All bytes are steps, so that random bytes are long histories.
        while !bytes.is_empty() {
            steps.push(bytes.arbitrary()?);
        }
        Ok(Self { policies, steps })
    }
}

#[derive(Arbitrary, Debug)]
pub(super) struct PolicyInput {
    algorithm: u8,
    parameter: u16,
    limits: Vec<(u16, u32)>,
    /// Maximum of the units in open holds. Half of all policies have such a limit, some of them no other.
    in_flight: Option<(u8, bool)>,
    shadow: bool,
}

#[derive(Arbitrary, Debug)]
pub(super) enum Step {
    Decide { policy: bool, key: u8, op: u8, cost: u16, shift: i32 },
    DecideAll { op: u8, cost: u16, shift: i32 },
    Refund { policy: bool, key: u8, cost: u16, ago: u32, shift: i32 },
    Reset { policy: bool, key: u8 },
    Inspect { policy: bool, key: u8, shift: i32 },
    Jump { to: u64 },
    Reserve(ReserveInput),
    ReserveAll { cost: u16, ttl_ms: u16, shift: i32 },
    Commit { which: u8, actual: u16, policy: bool, shift: i32 },
    Renew { which: u8, ttl_ms: u16, policy: bool, shift: i32 },
    Lease(LeaseInput),
    Settle { which: u8, spent: u16, policy: bool, shift: i32 },
}

#[derive(Arbitrary, Debug)]
pub(super) struct ReserveInput {
    pub(super) policy: bool,
    pub(super) key: u8,
    pub(super) cost: u16,
    pub(super) ttl_ms: u16,
    pub(super) spent_at_end: bool,
    pub(super) shift: i32,
}

#[derive(Arbitrary, Debug)]
pub(super) struct LeaseInput {
    pub(super) policy: bool,
    pub(super) key: u8,
    pub(super) asked: u16,
    pub(super) least: u16,
    pub(super) ttl_ms: u16,
    pub(super) settle: Option<(u8, u16)>,
    pub(super) shift: i32,
}

impl PolicyInput {
    pub(super) fn policy(&self) -> Policy {
        let number = u64::from(self.parameter % 1000) + 1;
        let algorithm = match self.algorithm % 5 {
            0 => Algorithm::SlidingLog,
            1 => Algorithm::SlidingCounter,
            2 => Algorithm::SlidingBuckets(Buckets::new(number).expect("1 to 1000")),
            3 => Algorithm::FixedWindow,
            _ => Algorithm::Gcra(Some(Burst::new(number).expect("1 to 1000"))),
        };
        let limit = |(max, window): &(u16, u32)| {
            Limit::new(u64::from(*max) + 1, Duration::from_micros(u64::from(*window) + 1000)).expect("in range")
        };
        let mut limits: Vec<Limit> = self.limits.iter().take(4).map(limit).collect();
        limits.sort_by_key(Limit::window);
        limits.dedup_by_key(|limit| limit.window());
        if let Some((max, is_alone)) = self.in_flight {
            if is_alone {
                limits.clear();
            }
            limits.push(Limit::in_flight(u64::from(max) * 300 + 1).expect("in range"));
        }
        if limits.is_empty() {
            limits.push("3/1s".parse().expect("a limit"));
        }
        let mode = if self.shadow { Mode::Shadow } else { Mode::Enforce };
        Policy::new("p", limits).expect("a policy").with_algorithm(algorithm).with_mode(mode)
    }
}
