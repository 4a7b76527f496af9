//! Faults of Redis and of the configuration file while clients send requests.

use std::{thread, time::Duration};

use tidegate_testbed::{Reply, Server as Redis, Wire, wait_for};

use crate::service::Service;

/// How long a fault lasts.
const LASTS: Duration = Duration::from_secs(3);
/// How long the service may take until its answers are no longer degraded. The keys of a flood have expired by then.
const RECOVERS: Duration = Duration::from_secs(180);

/// How long Redis may take to answer the commands that cause a fault.
const PATIENCE: Duration = Duration::from_secs(120);

/// Counts of the faults so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) faults: u64,
}

/// Causes the next fault, ends it, and waits until the service answers normally again.
pub(crate) fn run(round: usize, redis: &Redis, service: &Service, counts: &mut Counts) -> anyhow::Result<()> {
    counts.faults += 1;
    match round % 5 {
        0 => {
            redis.kill();
            thread::sleep(LASTS);
            redis.restart();
        }
        1 => {
            redis.pause();
            thread::sleep(LASTS);
            redis.resume();
        }
        2 => {
            admin(redis).try_command(["CONFIG", "SET", "maxmemory", "1mb"])?.expect_ok();
            thread::sleep(LASTS);
            admin(redis).try_command(["CONFIG", "SET", "maxmemory", "0"])?.expect_ok();
        }
        3 => {
            service.reload_with("[policies.other]\nlimits = [\"1/1h\"]\n")?;
            thread::sleep(LASTS);
            service.reload_original()?;
        }
        _ => {
            admin(redis).try_command(["SCRIPT", "FLUSH"])?.expect_ok();
            admin(redis).try_command(["CLIENT", "KILL", "TYPE", "normal"])?;
        }
    }
    wait_for("answers that are not degraded", RECOVERS, || answers_normally(service));
    Ok(())
}

/// A connection to Redis with a long timeout, because a busy disk can delay Redis.
fn admin(redis: &Redis) -> Wire {
    let wire = redis.wire();
    wire.set_timeout(Some(PATIENCE));
    wire
}

fn answers_normally(service: &Service) -> Result<(), String> {
    let mut connection = Wire::try_connect(service.resp()).map_err(|error| error.to_string())?;
    let key = format!("recovered-{}", fastrand::u64(..));
    let reply = connection.try_command(["TG.CHECK", "tight", &key, "FULL"]).map_err(|error| error.to_string())?;
    let Reply::Array(fields) = &reply else { return Err(format!("{reply:?}")) };
    let is_degraded = fields
        .chunks_exact(2)
        .any(|pair| matches!(&pair[0], Reply::Bulk(Some(name)) if name == b"degraded") && pair[1] != Reply::Integer(0));
    if is_degraded { Err(format!("{reply:?}")) } else { Ok(()) }
}
