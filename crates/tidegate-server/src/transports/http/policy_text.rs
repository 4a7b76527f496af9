//! Describes a policy in sentences.

use std::time::Duration;

use tidegate::{Algorithm, Limit, Mode, OnStoreFailure, Policy};

/// Describes a policy in sentences.
pub(super) fn describe(policy: &Policy) -> String {
    let limits: Vec<String> = policy.limits().iter().map(|limit| one(policy, *limit)).collect();
    let all = match limits.as_slice() {
        [only] => capital(only),
        several => format!("{}; all limits apply", capital(&several.join(" and "))),
    };
    let mode = match policy.mode() {
        Mode::Shadow => "In shadow mode, requests beyond the limit are allowed and counted as would-be denials.",
        _ => "Requests beyond the limit are denied.",
    };
    let accuracy = if policy.limits().iter().all(Limit::is_in_flight) {
        "Requests reserve their units until they are done.".to_owned()
    } else {
        accuracy(policy.algorithm())
    };
    format!("{all}. {accuracy} {mode} {}", on_failure(policy.on_store_failure()))
}

fn one(policy: &Policy, limit: Limit) -> String {
    if limit.is_in_flight() {
        return format!("at most {} units in open holds at once", limit.max());
    }
    let (units, window) = (limit.max(), period(limit.window()));
    match policy.algorithm() {
        Algorithm::FixedWindow => format!("{units} units in each {window} of the clock"),
        Algorithm::Gcra(_) => format!("{units} units a {window}, at most {} at once", policy.capacity(limit)),
        Algorithm::SlidingCounter => format!("about {units} units in any {window}"),
        _ => format!("at most {units} units in any {window}"),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns `minute` for a minute, and `90s` for a window without a name.
fn period(window: Duration) -> String {
    let named = [(1, "second"), (60, "minute"), (3_600, "hour"), (86_400, "day"), (604_800, "week")];
    let name = named.iter().find(|(seconds, _)| window == Duration::from_secs(*seconds));
    name.map_or_else(|| format!("{window:?}"), |(_, name)| (*name).to_owned())
}

fn accuracy(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::SlidingLog => "Each request is stored, so the limit is exact.".to_owned(),
        Algorithm::SlidingCounter => {
            "The use is estimated from two counters: it is close for ordinary traffic, and up to twice the limit for hostile traffic."
                .to_owned()
        }
        Algorithm::SlidingBuckets(buckets) => {
            format!("Units are counted in {} buckets: never more than the limit, sometimes a little less.", buckets.get())
        }
        Algorithm::FixedWindow => "Around a boundary of the window, up to twice the limit is admitted.".to_owned(),
        Algorithm::Gcra(_) => "Units become free at an even rate.".to_owned(),
        _ => String::new(),
    }
}

fn on_failure(choice: OnStoreFailure) -> String {
    match choice {
        OnStoreFailure::Open => "If the store fails, requests are allowed.".to_owned(),
        OnStoreFailure::Closed => "If the store fails, requests are denied.".to_owned(),
        OnStoreFailure::Local(_) => {
            let text = choice.to_string();
            let share = text.split_once(':').map_or("all", |(_, share)| share);
            format!("If the store fails, this node decides by itself with {share} of the limit.")
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate::{Algorithm, Mode, OnStoreFailure, Policy};

    use super::describe;

    fn policy(limits: &[&str], algorithm: &str) -> Policy {
        let limits = limits.iter().map(|limit| limit.parse().unwrap());
        Policy::new("p", limits).unwrap().with_algorithm(algorithm.parse::<Algorithm>().unwrap())
    }

    #[test]
    fn a_policy_is_described_in_sentences() {
        assert_eq!(
            describe(&policy(&["60/1m"], "sliding_log")),
            "At most 60 units in any minute. Each request is stored, so the limit is exact. Requests beyond the limit are denied. \
             If the store fails, requests are allowed."
        );
        assert_eq!(
            describe(&policy(&["4/inflight"], "sliding_log")),
            "At most 4 units in open holds at once. Requests reserve their units until they are done. Requests beyond the limit \
             are denied. If the store fails, requests are allowed."
        );
        let both = describe(&policy(&["60/1m", "4/inflight"], "sliding_log"));
        assert!(
            both.starts_with("At most 60 units in any minute and at most 4 units in open holds at once; all"),
            "{both}"
        );
        let several = policy(&["5/1m", "50/90s"], "gcra:7").with_mode(Mode::Shadow);
        assert_eq!(
            describe(&several.with_on_store_failure(OnStoreFailure::Closed)),
            "5 units a minute, at most 7 at once and 50 units a 90s, at most 7 at once; all limits apply. Units become free at an \
             even rate. In shadow mode, requests beyond the limit are allowed and counted as would-be denials. If the store fails, \
             requests are denied."
        );
    }
}
