//! Each fault of a store with reservations is found by the suites.

use std::time::Duration;

use tidegate::{
    AtEnd, Cost, Decision, Hold, Key, Lease, Leased, Op, Policy, PolicySource, ReservationBounds, ReservationError,
    ReservationId, Reserved, ReservedAll, Settled, Spend,
};
use tidegate_conformance::suites::{reservation_vectors, reservations, reservations_under_overrides, reserve_all};

use crate::faults::fault;
use crate::faulty_store::Memory;

const DAY: Duration = Duration::from_secs(86_400);
const MICROSECOND: Duration = Duration::from_micros(1);

/// Changes the ttl of a hold.
fn with_ttl(hold: Hold, ttl: Duration) -> Hold {
    match hold.at_end() {
        AtEnd::Spent => Hold::new(ttl).spent_at_end(),
        _ => Hold::new(ttl),
    }
}

/// The key and the units of a hold.
fn held(memory: &Memory, id: &ReservationId) -> Option<(Key<'static>, u64)> {
    memory.holds.lock().expect("no panic").get(id).cloned()
}

/// The answer to an operation on a hold that is closed already: the units in use now.
fn closed(memory: &Memory, id: &ReservationId, policies: &dyn PolicySource) -> Result<Settled, ReservationError> {
    memory.commit(id, &[0], policies)
}

fault! {
    /// Gives unused units back to now, and not to the time of the grant.
    RefundsHoldsToNow {
        fn commit(
            memory: &Memory,
            id: &ReservationId,
            actual: &[u64],
            policies: &dyn PolicySource,
        ) -> Result<Settled, ReservationError> {
            let Some((key, units)) = held(memory, id).filter(|(_, units)| actual[0] < *units) else {
                return memory.commit(id, actual, policies);
            };
            let mut settled = memory.commit(id, &[units], policies)?;
            if settled.known {
                let policy = id.policy(policies)?;
                let newest = memory.inspect(&policy, &key).map_or(memory.clock().now(), |state| state.newest_charge);
                let _ = memory.refund(&policy, &key, Cost::new(units - actual[0]).expect("a cost"), newest);
                settled.decision = closed(memory, id, policies)?.decision;
            }
            Ok(settled)
        }
    }
    refunding_holds_to_now_breaks_vectors: reservation_vectors::the_store_reproduces_every_vector_of_reservations,
    refunding_holds_to_now_breaks_reservations: reservations::every_answer_with_reservations_equals_the_model,
}

fault! {
    /// Never ends a hold.
    NeverEndsHolds {
        fn policy(policy: &Policy) -> Policy {
            policy.clone().with_reservation_bounds(ReservationBounds::default().with_max_hold(DAY).expect("in range"))
        }

        fn reserve(
            memory: &Memory,
            policy: &Policy,
            key: &Key<'_>,
            cost: Cost,
            hold: Hold,
        ) -> Result<Reserved, ReservationError> {
            memory.reserve(policy, key, cost, with_ttl(hold, DAY))
        }
    }
    never_ending_holds_breaks_vectors: reservation_vectors::the_store_reproduces_every_vector_of_reservations,
    never_ending_holds_breaks_reservations: reservations::every_answer_with_reservations_equals_the_model,
    never_ending_holds_breaks_long_histories: reservations::long_histories_with_reservations_equal_the_model,
    never_ending_holds_breaks_overrides:
        reservations_under_overrides::every_answer_with_reservations_under_overrides_equals_the_model,
    never_ending_holds_breaks_changed_limits: reservations::reservations_under_changed_limits_equal_the_model,
}

fault! {
    /// Ends holds a microsecond late.
    EndsHoldsLate {
        fn reserve(
            memory: &Memory,
            policy: &Policy,
            key: &Key<'_>,
            cost: Cost,
            hold: Hold,
        ) -> Result<Reserved, ReservationError> {
            memory.reserve(policy, key, cost, with_ttl(hold, (hold.ttl() + MICROSECOND).min(DAY)))
        }
    }
    ending_holds_late_breaks_reservations: reservations::every_answer_with_reservations_equals_the_model,
}

fault! {
    /// Ends holds a microsecond early.
    EndsHoldsEarly {
        fn reserve(
            memory: &Memory,
            policy: &Policy,
            key: &Key<'_>,
            cost: Cost,
            hold: Hold,
        ) -> Result<Reserved, ReservationError> {
            let ttl = hold.ttl().saturating_sub(MICROSECOND).max(Duration::from_millis(1));
            memory.reserve(policy, key, cost, with_ttl(hold, ttl))
        }
    }
    ending_holds_early_breaks_reservations: reservations::every_answer_with_reservations_equals_the_model,
}

fault! {
    /// Settles a hold at each commit.
    SettlesTwice {
        fn commit(
            memory: &Memory,
            id: &ReservationId,
            actual: &[u64],
            policies: &dyn PolicySource,
        ) -> Result<Settled, ReservationError> {
            let mut settled = memory.commit(id, actual, policies)?;
            if let (false, Some((key, _)), Ok(cost)) = (settled.known, held(memory, id), Cost::new(actual[0])) {
                let _ = memory.charge(&*id.policy(policies)?, &key, cost);
                settled.known = true;
                settled.decision = closed(memory, id, policies)?.decision;
            }
            Ok(settled)
        }
    }
    settling_twice_breaks_vectors: reservation_vectors::the_store_reproduces_every_vector_of_reservations,
    settling_twice_breaks_reservations: reservations::every_answer_with_reservations_equals_the_model,
}

fault! {
    /// Releases every hold at its end.
    ReleasesSpentHolds {
        fn reserve(
            memory: &Memory,
            policy: &Policy,
            key: &Key<'_>,
            cost: Cost,
            hold: Hold,
        ) -> Result<Reserved, ReservationError> {
            memory.reserve(policy, key, cost, Hold::new(hold.ttl()))
        }
    }
    releasing_spent_holds_breaks_vectors: reservation_vectors::the_store_reproduces_every_vector_of_reservations,
    releasing_spent_holds_breaks_reservations: reservations::every_answer_with_reservations_equals_the_model,
}

fault! {
    /// Does not charge what a commit adds to the reserved units.
    CommitsAtMostTheHold {
        fn commit(
            memory: &Memory,
            id: &ReservationId,
            actual: &[u64],
            policies: &dyn PolicySource,
        ) -> Result<Settled, ReservationError> {
            let units = held(memory, id).map_or(u64::MAX, |(_, units)| units);
            memory.commit(id, &[actual[0].min(units)], policies)
        }
    }
    losing_more_than_the_hold_breaks_vectors: reservation_vectors::the_store_reproduces_every_vector_of_reservations,
    losing_more_than_the_hold_breaks_reservations: reservations::every_answer_with_reservations_equals_the_model,
}

fault! {
    /// Adds the ttl of a renew to the end of the hold, and not to now.
    RenewsFromTheEnd {
        fn renew(
            memory: &Memory,
            id: &ReservationId,
            ttl: Duration,
            policies: &dyn PolicySource,
        ) -> Result<Settled, ReservationError> {
            memory.renew(id, (2 * ttl).min(Duration::from_secs(3600)), policies)
        }
    }
    renewing_from_the_end_breaks_reservations: reservations::every_answer_with_reservations_equals_the_model,
}

fault! {
    /// Forgets what was spent of a lease.
    ForgetsLeasedUnits {
        fn settle(
            memory: &Memory,
            id: &ReservationId,
            _spent: u64,
            policies: &dyn PolicySource,
        ) -> Result<Settled, ReservationError> {
            memory.settle(id, 0, policies)
        }
    }
    forgetting_leased_units_breaks_vectors: reservation_vectors::the_store_reproduces_every_vector_of_reservations,
    forgetting_leased_units_breaks_reservations: reservations::every_answer_with_reservations_equals_the_model,
}

fault! {
    /// Charges a lease at its grant.
    ChargesLeasesAtTheGrant {
        fn lease(memory: &Memory, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, ReservationError> {
            let mut leased = memory.lease(policy, key, lease)?;
            if let (Some(id), Ok(cost)) = (&leased.id, Cost::new(leased.granted)) {
                memory.settle(id, 0, policy)?;
                let hold = Hold::new(lease.ttl).spent_at_end();
                leased.id = memory.reserve(policy, key, cost, hold)?.id.or(leased.id);
            }
            Ok(leased)
        }
    }
    charging_leases_at_the_grant_breaks_vectors:
        reservation_vectors::the_store_reproduces_every_vector_of_reservations,
    charging_leases_at_the_grant_breaks_reservations: reservations::every_answer_with_reservations_equals_the_model,
}

fault! {
    /// Reports the waits of a peek a microsecond too short.
    ShortWaitsForHolds {
        fn decide(memory: &Memory, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
            let now = memory.clock().now();
            let decision = memory.store().decide(op, policy, key, cost, now);
            if decision.is_allowed() || op != Op::Peek {
                return decision;
            }
            let later = memory.store().decide(op, policy, key, cost, now.after(MICROSECOND));
            if later.is_allowed() { decision } else { later }
        }
    }
    short_waits_break_retry_times: reservations::a_denied_reserve_is_granted_at_its_retry_time,
}

fault! {
    /// Reserves several requests one by one.
    ReservesOneByOne {
        fn reserve_all(memory: &Memory, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, ReservationError> {
            let mut answer = memory.reserve_all(spends, hold)?;
            if !answer.decisions.overall.is_allowed() {
                for (spend, part) in spends.iter().zip(&mut answer.decisions.parts) {
                    *part = memory.reserve(spend.policy, spend.key, spend.cost, hold)?.decision;
                }
            }
            Ok(answer)
        }
    }
    reserving_one_by_one_breaks_reserve_all: reserve_all::several_requests_are_held_as_one,
}

fault! {
    /// Commits only the first of several requests.
    CommitsOnlyTheFirst {
        fn commit(
            memory: &Memory,
            id: &ReservationId,
            actual: &[u64],
            policies: &dyn PolicySource,
        ) -> Result<Settled, ReservationError> {
            let only_first = actual.iter().enumerate().map(|(i, units)| if i == 0 { *units } else { 0 });
            memory.commit(id, &only_first.collect::<Vec<_>>(), policies)
        }
    }
    committing_only_the_first_breaks_reserve_all: reserve_all::several_requests_are_held_as_one,
}
