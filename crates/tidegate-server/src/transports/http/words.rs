//! A policy in sentences.

use std::time::Duration;

use tidegate::{Algorithm, Limit, Mode, OnStoreFailure, Policy};

/// What a policy does, in sentences.
pub(super) fn of(policy: &Policy) -> String {
    let limits: Vec<String> = policy.limits().iter().map(|limit| one(policy, *limit)).collect();
    let all = match limits.as_slice() {
        [only] => capital(only),
        several => format!("{}, all of it at once", capital(&several.join(" and "))),
    };
    let mode = match policy.mode() {
        Mode::Shadow => "It only watches: what does not fit is let through and counted as what would have been denied.",
        _ => "What does not fit is denied.",
    };
    format!("{all}. {} {mode} {}", counted(policy.algorithm()), failing(policy.on_store_failure()))
}

fn one(policy: &Policy, limit: Limit) -> String {
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

/// `minute` for a minute, `90s` for what has no name.
fn period(window: Duration) -> String {
    let named = [(1, "second"), (60, "minute"), (3_600, "hour"), (86_400, "day"), (604_800, "week")];
    let name = named.iter().find(|(seconds, _)| window == Duration::from_secs(*seconds));
    name.map_or_else(|| format!("{window:?}"), |(_, name)| (*name).to_owned())
}

fn counted(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::SlidingLog => "Each request is remembered, so this is exact.".to_owned(),
        Algorithm::SlidingCounter => {
            "It is estimated from two counters: close on ordinary traffic, up to twice as much for who plays against it."
                .to_owned()
        }
        Algorithm::SlidingBuckets(buckets) => {
            format!("It is counted in {} buckets: never more than that, a little less at times.", buckets.get())
        }
        Algorithm::FixedWindow => "Around a boundary of the clock twice as much can get through.".to_owned(),
        Algorithm::Gcra(_) => "Units come back evenly, one after the other.".to_owned(),
        _ => String::new(),
    }
}

fn failing(choice: OnStoreFailure) -> String {
    match choice {
        OnStoreFailure::Open => "If the store fails, requests are let through.".to_owned(),
        OnStoreFailure::Closed => "If the store fails, requests are denied.".to_owned(),
        OnStoreFailure::Local(_) => {
            let said = choice.to_string();
            let share = said.split_once(':').map_or("all", |(_, share)| share);
            format!("If the store fails, this node decides by itself, with {share} of the limit.")
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate::{Algorithm, Mode, OnStoreFailure, Policy};

    use super::of;

    fn policy(limits: &[&str], algorithm: &str) -> Policy {
        let limits = limits.iter().map(|limit| limit.parse().unwrap());
        Policy::new("p", limits).unwrap().with_algorithm(algorithm.parse::<Algorithm>().unwrap())
    }

    #[test]
    fn a_policy_reads_as_sentences() {
        assert_eq!(
            of(&policy(&["60/1m"], "sliding_log")),
            "At most 60 units in any minute. Each request is remembered, so this is exact. What does not fit is denied. If \
             the store fails, requests are let through."
        );
        let several = policy(&["5/1m", "50/90s"], "gcra:7").with_mode(Mode::Shadow);
        assert_eq!(
            of(&several.with_on_store_failure(OnStoreFailure::Closed)),
            "5 units a minute, at most 7 at once and 50 units a 90s, at most 7 at once, all of it at once. Units come back \
             evenly, one after the other. It only watches: what does not fit is let through and counted as what would have \
             been denied. If the store fails, requests are denied."
        );
    }
}
