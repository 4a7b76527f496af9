//! Opening a connection.

use std::time::Duration;

use redis::{Value, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::{NodeTask, calls};
use crate::{
    driven_connection::{DrivenConnection, query},
    error::Error,
    reply::read_reply,
    stats::count,
    stopwatch,
    target::{Address, Login, ServerLocation},
};

/// How long one sentinel may take, so that a hung one does not delay the others.
const MAX_SENTINEL_TIME: Duration = Duration::from_millis(100);

impl NodeTask {
    pub(super) async fn connect(&self) -> Result<DrivenConnection, Error> {
        let limit = self.context.settings.connect_timeout;
        timeout(limit, self.open()).await.map_err(|_| Error::Timeout)?
    }

    /// Opens a connection, logs in, loads the script and reads the server's time.
    async fn open(&self) -> Result<DrivenConnection, Error> {
        let address = match &self.location {
            ServerLocation::Fixed(address) => address.clone(),
            ServerLocation::Sentinel { sentinels, master, login } => find_master(sentinels, master, login).await?,
        };
        let mut driven = DrivenConnection::open(&address, &self.context.login).await?;
        let connection = driven.connection.clone();
        driven.drive(self.prepare(connection)).await?;
        Ok(driven)
    }

    async fn prepare(&self, mut connection: MultiplexedConnection) -> Result<(), Error> {
        self.load_script(&mut connection).await?;
        self.state.clock.reset();
        let sent_at = stopwatch::micros();
        let empty = calls::empty_call(&self.context.source);
        let reply = connection.send_packed_command(&empty).await.map_err(|error| Error::from_error(&error))?;
        let Value::BulkString(reply) = reply else { return Err(Error::Garbled) };
        let now = read_reply(&reply, [])?.now;
        self.state.clock.record(sent_at, stopwatch::micros(), now);
        self.check_server(&mut connection).await
    }

    pub(super) async fn load_script(&self, connection: &mut MultiplexedConnection) -> Result<(), Error> {
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(&self.context.source.text).to_owned();
        connection.send_packed_command(&load).await.map_err(|error| Error::from_error(&error))?;
        count(&self.context.counters.scripts_loaded);
        Ok(())
    }

    /// Checks whether the server accepts writes, and whether it may evict keys. If the ACL user lacks the permission for INFO,
    /// the connection is used anyway.
    async fn check_server(&self, connection: &mut MultiplexedConnection) -> Result<(), Error> {
        for section in ["replication", "memory"] {
            let info = redis::cmd("INFO").arg(section).to_owned();
            let Ok(Value::BulkString(text)) = connection.send_packed_command(&info).await else { continue };
            let text = String::from_utf8_lossy(&text);
            if text.contains("role:slave") {
                return Err(Error::ReadOnly);
            }
            if let Some(policy) = text.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")) {
                self.record_eviction_policy(Some(policy.trim()));
            }
        }
        Ok(())
    }
}

/// Returns the address of the master from the first sentinel that knows it.
async fn find_master(sentinels: &[Address], master: &str, login: &Login) -> Result<Address, Error> {
    let command = redis::cmd("SENTINEL").arg("get-master-addr-by-name").arg(master).to_owned();
    for sentinel in sentinels {
        if let Some(answer) = query(login, sentinel, &command, MAX_SENTINEL_TIME).await
            && let Ok((host, port)) = redis::from_redis_value(answer)
        {
            return Ok(Address { host, port });
        }
    }
    Err(Error::Unreachable)
}
