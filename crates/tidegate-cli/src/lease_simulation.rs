//! `tidegate simulate leases`: what leases of nodes cost and gain, in a simulated network.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tidegate::{Limit, Policy, format_duration};
use tidegate_leases::simulation::{self, Outcome as Simulated, Scenario};

use crate::{
    arguments::{Format, LeaseArguments},
    outcome::Outcome,
    output,
};

/// Maximum number of requests to simulate. They take about ten seconds.
const MAX_REQUESTS: f64 = 10_000_000.0;

pub(crate) fn run(arguments: &LeaseArguments, format: Format) -> anyhow::Result<Outcome> {
    let scenario = scenario(arguments)?;
    let simulated = simulation::run(&scenario);
    let text = match format {
        Format::Text => text(arguments, &scenario, &simulated),
        Format::Json => json(arguments, &scenario, &simulated).to_string() + "\n",
    };
    output::print_text(&text)?;
    Ok(Outcome::Good)
}

fn scenario(arguments: &LeaseArguments) -> anyhow::Result<Scenario> {
    let LeaseArguments { limit, nodes, cost, duration, .. } = *arguments;
    anyhow::ensure!(arguments.demand > 0.0, "--demand {} is no demand: use 1.5, for example", arguments.demand);
    let share = |name: &str, share: f64| {
        anyhow::ensure!((0.0..=1.0).contains(&share), "{name} {share} is not a share: use 0 to 1");
        Ok(share)
    };
    let policy = Policy::new("simulated", [limit])?.with_algorithm(arguments.algorithm).with_lease(arguments.term)?;
    let requests_per_second = arguments.demand * units_per_second(limit) / as_f64(cost) / f64::from(nodes);
    let requests = requests_per_second * f64::from(nodes) * duration.as_secs_f64();
    anyhow::ensure!(
        requests <= MAX_REQUESTS,
        "these would be {requests:.0} requests, and {MAX_REQUESTS:.0} can be simulated: use a shorter --duration, a smaller \
         --demand or a higher --cost"
    );
    Ok(Scenario {
        duration,
        requests_per_second,
        cost,
        latency: arguments.latency,
        jitter: arguments.jitter,
        lost: share("--lost", arguments.lost)?,
        repeated: share("--repeated", arguments.repeated)?,
        crashes_per_hour: arguments.crashes_per_hour,
        seed: arguments.seed,
        ..Scenario::new(policy, usize::from(nodes))
    })
}

fn units_per_second(limit: Limit) -> f64 {
    as_f64(limit.max()) / limit.window().as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs few digits")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

fn per_second(number: u64, scenario: &Scenario) -> f64 {
    as_f64(number) / scenario.duration.as_secs_f64()
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { as_f64(part) / as_f64(of) }
}

fn text(arguments: &LeaseArguments, scenario: &Scenario, simulated: &Simulated) -> String {
    let LeaseArguments { limit, nodes, demand, duration, term, latency, .. } = *arguments;
    let [term, latency, duration] = [term, latency, duration].map(format_duration);
    let mut out = format!(
        "{nodes} nodes lease {limit} for {term}. The store is {latency} away.\nThey request {demand} times the limit for \
         {duration} of simulated time.\n\n"
    );
    let requests = per_second(simulated.requests, scenario);
    let rows = [
        ("admitted", format!("{:.1} % of what one exact limiter admits", 100.0 * simulated.share())),
        ("", format!("{} of {} units", simulated.admitted, simulated.exact)),
        ("calls of the store", format!("{:.1} a second", per_second(simulated.calls, scenario))),
        ("", format!("{requests:.1} a second without leases")),
        (
            "waited for the store",
            format!("{:.1} % of the requests", 100.0 * share(simulated.waited, simulated.requests)),
        ),
        ("worst window", format!("{} of {} units", simulated.worst_windows[0], scenario.policy.capacity(limit))),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "{name:<21} {value}");
    }
    out
}

fn json(arguments: &LeaseArguments, scenario: &Scenario, simulated: &Simulated) -> Value {
    json!({
        "limit": arguments.limit.to_string(),
        "algorithm": arguments.algorithm.to_string(),
        "nodes": arguments.nodes,
        "term_us": u64::try_from(arguments.term.as_micros()).unwrap_or(u64::MAX),
        "latency_us": u64::try_from(arguments.latency.as_micros()).unwrap_or(u64::MAX),
        "demand": arguments.demand,
        "seed": arguments.seed,
        "requests": simulated.requests,
        "admitted_units": simulated.admitted,
        "exact_units": simulated.exact,
        "share_admitted": simulated.share(),
        "calls": simulated.calls,
        "calls_per_second": per_second(simulated.calls, scenario),
        "waited": simulated.waited,
        "share_waited": share(simulated.waited, simulated.requests),
        "worst_window_units": simulated.worst_windows[0],
        "exceeded": simulated.exceeded > 0,
    })
}
