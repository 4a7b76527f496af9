//! The soak test: an hour of abuse, faults and honest traffic against two services, one with its state in memory and
//! one with its state in Redis.
//!
//! Every decision for an honest client is compared with the brute-force model. The program fails if one of them is
//! wrong, if a hot key is admitted beyond its limit, or if the memory of a service keeps growing. `scripts/soak` runs
//! it.
#![expect(clippy::disallowed_methods, reason = "the services under test run in real time, and so do their clients")]

mod abuse;
mod faults;
mod honest;
mod memory;
mod report;
mod service;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use tidegate_testbed::Server as Redis;

use crate::{honest::Totals, memory::Memory, report::Report, service::Service};

/// Runs the service under abuse and faults, and compares every honest decision with the model.
#[derive(Debug, Parser)]
struct Arguments {
    /// How long to run, in minutes.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// The `tidegate` binary to run.
    #[arg(long)]
    binary: PathBuf,
    /// Honest clients of each service.
    #[arg(long, default_value_t = 8)]
    clients: usize,
}

/// Stops the clients when it is dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    // A killed Redis keeps the writes in its append-only file, even if they were not synced.
    let redis = Redis::builder().arg("appendonly", "yes").start();
    let in_memory = Service::start(&arguments.binary, "memory")?;
    let in_redis = Service::start(&arguments.binary, &redis.url())?;
    let services = [&in_memory, &in_redis];
    let (stop, started) = (AtomicBool::new(false), Instant::now());
    let totals = <[Totals; 2]>::default();
    let mut memory = services.map(|service| Memory::of(service.process_id()));
    let mut abused = abuse::Counts::default();
    let mut faults = 0;

    thread::scope(|scope| -> anyhow::Result<()> {
        // Stops the clients even if something fails.
        let _stopped = StopOnDrop(&stop);
        for (service, totals) in services.iter().zip(&totals) {
            for client in 0..arguments.clients {
                let stop = &stop;
                scope.spawn(move || honest::run(client, &service.resp, totals, stop));
            }
        }
        let end = started + Duration::from_secs(60 * arguments.minutes);
        for round in 0.. {
            if Instant::now() >= end {
                break;
            }
            for service in services {
                abuse::run(round, service, &mut abused)?;
            }
            faults += 1;
            faults::run(round, &redis, &in_redis)?;
            for (memory, service) in memory.iter_mut().zip(services) {
                memory.sample()?;
                service.must_reply()?;
            }
            report::progress(started, arguments.minutes, &totals);
        }
        Ok(())
    })?;

    let report = Report { minutes: arguments.minutes, totals, memory, abused, faults };
    println!("{report}");
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
