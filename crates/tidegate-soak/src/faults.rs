//! Faults of Redis and of the configuration file while clients send requests.

use std::{thread, time::Duration};

use tidegate_testbed::{Server as Redis, Wire, wait_for};

use crate::{honest::CheckReply, service::Service};

/// Duration of a fault.
const DURATION: Duration = Duration::from_secs(3);
/// Maximum time until the replies of the service are no longer degraded. The keys of a flood have expired by then.
const RECOVERY: Duration = Duration::from_secs(180);

/// Timeout of the commands that cause a fault.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(120);

/// Causes the next fault, ends it, and waits until the replies of the service are no longer degraded.
pub(crate) fn run(round: usize, redis: &Redis, service: &Service) -> anyhow::Result<()> {
    match round % 5 {
        0 => {
            redis.kill();
            thread::sleep(DURATION);
            redis.restart();
        }
        1 => {
            redis.pause();
            thread::sleep(DURATION);
            redis.resume();
        }
        2 => {
            admin(redis).try_command(["CONFIG", "SET", "maxmemory", "1mb"])?.expect_ok();
            thread::sleep(DURATION);
            admin(redis).try_command(["CONFIG", "SET", "maxmemory", "0"])?.expect_ok();
        }
        3 => {
            service.reload_with("[policies.other]\nlimits = [\"1/1h\"]\n")?;
            thread::sleep(DURATION);
            service.reload_original()?;
        }
        _ => {
            admin(redis).try_command(["SCRIPT", "FLUSH"])?.expect_ok();
            admin(redis).try_command(["CLIENT", "KILL", "TYPE", "normal"])?;
        }
    }
    wait_for("replies that are not degraded", RECOVERY, || replies_normally(service));
    Ok(())
}

/// A connection to Redis with a long timeout, because a busy disk can delay Redis.
fn admin(redis: &Redis) -> Wire {
    let wire = redis.wire();
    wire.set_timeout(Some(ADMIN_TIMEOUT));
    wire
}

fn replies_normally(service: &Service) -> Result<(), String> {
    let mut connection = Wire::try_connect(&service.resp).map_err(|error| error.to_string())?;
    let key = format!("recovered-{}", fastrand::u64(..));
    let reply = connection.try_command(["TG.CHECK", "tight", &key, "FULL"]).map_err(|error| error.to_string())?;
    let is_normal = CheckReply::parse(&reply).is_some_and(|reply| !reply.degraded);
    if is_normal { Ok(()) } else { Err(format!("{reply:?}")) }
}
