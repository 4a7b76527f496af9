//! The results of a run, as text and as JSON. Serialised, these types are the JSON format; field names are stable.

use std::fmt;

use serde::Serialize;

use super::throughput::Round;
use crate::machine::Machine;
use crate::measure::median;
use crate::table::{Columns, highest, lowest, met_or_missed, target, whole};

/// A whole run.
#[derive(Debug, Serialize)]
pub struct ServiceReport {
    /// Where it ran.
    pub machine: Machine,
    /// The version of the Redis it is compared with.
    pub redis: String,
    /// Rounds behind every median.
    pub rounds: u16,
    /// The approximate length of a round.
    pub round_seconds: f64,
    /// The load average of the machine before the run and after it.
    pub load_average: [f64; 2],
    /// Requests per second, compared with another server.
    pub throughput: Vec<ThroughputRow>,
    /// Measurements without a comparison.
    pub goals: Vec<Goal>,
}

/// Our server and another server under the same load.
#[derive(Debug, Serialize)]
pub struct ThroughputRow {
    /// The request.
    pub what: String,
    /// The other server.
    pub rival: &'static str,
    /// Ours.
    pub ours: ServerSummary,
    /// The other's.
    pub theirs: ServerSummary,
    /// Our median requests per second divided by theirs.
    pub speed: f64,
    /// The minimum of the ratio; 0 if there is no target.
    pub wanted_speed: f64,
    /// Our median processor time for a request divided by theirs.
    pub cost: f64,
    /// The maximum of the ratio, if there is a target.
    pub wanted_cost: Option<f64>,
}

impl ThroughputRow {
    /// Summarises the rounds of ours and of the other server.
    pub(super) fn new(
        what: String,
        rival: &'static str,
        [ours, theirs]: [&[Round]; 2],
        wanted_speed: f64,
        wanted_cost: Option<f64>,
    ) -> Self {
        let (ours, theirs) = (ServerSummary::of(ours), ServerSummary::of(theirs));
        let (speed, cost) = (ours.per_second / theirs.per_second, ours.server_us / theirs.server_us);
        Self { what, rival, ours, theirs, speed, wanted_speed, cost, wanted_cost }
    }
}

/// The medians of one server.
#[derive(Debug, Serialize)]
pub struct ServerSummary {
    /// Requests per second.
    pub per_second: f64,
    /// Each round.
    pub rounds_per_second: Vec<f64>,
    /// Processor time of the server for each request, in microseconds.
    pub server_us: f64,
    /// Processor time of the server divided by wall time: 1 is one core.
    pub server_cores: f64,
    /// Percentiles of the latency, in milliseconds.
    pub latency_ms: Latency,
}

/// Percentiles of the latency in milliseconds, as the load generator reports them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The 50th percentile.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The percentile 99.9.
    pub p999: f64,
}

impl ServerSummary {
    /// The medians of at least one round.
    pub(crate) fn of(rounds: &[Round]) -> Self {
        let middle = |value: fn(&Round) -> f64| median(rounds.iter().map(value));
        Self {
            per_second: middle(|round| round.load.per_second),
            rounds_per_second: rounds.iter().map(|round| round.load.per_second).collect(),
            server_us: middle(Round::server_us),
            server_cores: middle(Round::server_cores),
            latency_ms: Latency {
                p50: middle(|round| round.load.latency.p50),
                p99: middle(|round| round.load.latency.p99),
                p999: middle(|round| round.load.latency.p999),
            },
        }
    }
}

/// A measurement without a comparison.
#[derive(Debug, Serialize)]
pub struct Goal {
    /// The benchmark.
    pub what: String,
    /// The unit.
    pub unit: &'static str,
    /// The measured value.
    pub measured: f64,
    /// The maximum value.
    pub wanted: f64,
}

impl fmt::Display for ServiceReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, redis, rounds, round_seconds, load_average: [before, after], .. } = self;
        write!(
            out,
            "{machine}, Redis {redis}\n\
             load average {before:.1} before, {after:.1} after; the load generator uses the same cores\n\
             {rounds} rounds of about {round_seconds} s, interleaved; the median of the rounds\n",
        )?;
        let mut targets = Columns::of(
            self.throughput.iter().flat_map(ThroughputRow::targets).chain(self.goals.iter().map(Goal::target)),
        );
        for (column, title) in ["benchmark", "measured by", "compared with"].into_iter().enumerate() {
            targets = targets.text(title, |cells| cells[column].clone());
        }
        for (column, title) in (3..).zip(["ours", "theirs", "x", "target", ""]) {
            targets = targets.number(title, |cells| cells[column].clone());
        }
        targets.write(out, "Targets; x: ours divided by theirs")?;
        let servers = self
            .throughput
            .iter()
            .flat_map(|row| [(&row.what, "tidegate", &row.ours), (&row.what, row.rival, &row.theirs)]);
        Columns::of(servers)
            .text("benchmark", |(what, ..)| (*what).clone())
            .text("server", |(_, server, _)| (*server).to_owned())
            .number("/s", |(.., summary)| whole(summary.per_second))
            .number("slowest/s", |(.., summary)| whole(lowest(&summary.rounds_per_second)))
            .number("fastest/s", |(.., summary)| whole(highest(&summary.rounds_per_second)))
            .number("CPU us", |(.., summary)| format!("{:.2}", summary.server_us))
            .number("cores", |(.., summary)| format!("{:.2}", summary.server_cores))
            .number("p50 ms", |(.., summary)| format!("{:.3}", summary.latency_ms.p50))
            .number("p99 ms", |(.., summary)| format!("{:.3}", summary.latency_ms.p99))
            .number("p99.9 ms", |(.., summary)| format!("{:.3}", summary.latency_ms.p999))
            .write(out, "Each server: processor time of a request in microseconds, latency in milliseconds")
    }
}

impl ThroughputRow {
    /// The cells of the targets: requests per second, and processor time of a request.
    fn targets(&self) -> [[String; 8]; 2] {
        let Self { what, rival, ours, theirs, speed, wanted_speed, cost, wanted_cost } = self;
        let wanted_speed = (*wanted_speed > 0.0).then_some(*wanted_speed);
        [
            [
                what.clone(),
                "requests/s".to_owned(),
                (*rival).to_owned(),
                whole(ours.per_second),
                whole(theirs.per_second),
                format!("{speed:.2}"),
                target(">=", wanted_speed),
                met_or_missed(wanted_speed.map(|min| *speed >= min)),
            ],
            [
                what.clone(),
                "CPU us/request".to_owned(),
                (*rival).to_owned(),
                format!("{:.2}", ours.server_us),
                format!("{:.2}", theirs.server_us),
                format!("{cost:.2}"),
                target("<=", *wanted_cost),
                met_or_missed(wanted_cost.map(|max| *cost <= max)),
            ],
        ]
    }
}

impl Goal {
    /// The cells of the target.
    fn target(&self) -> [String; 8] {
        let Self { what, unit, measured, wanted } = self;
        let none = String::new;
        let measured_text = format!("{measured:.1}");
        let verdict = met_or_missed(measured <= wanted);
        [what.clone(), (*unit).to_owned(), none(), measured_text, none(), none(), target("<=", *wanted), verdict]
    }
}
