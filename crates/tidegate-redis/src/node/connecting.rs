//! Making a connection that can be asked.

use redis::{Value, aio::MultiplexedConnection};
use tokio::time::timeout;

use super::{Driver, Place, sending};
use crate::{error::Error, link::Link, reply::read_reply, sentinel::ask_sentinels, stats::count, stopwatch};

impl Driver {
    pub(super) async fn connect(&self) -> Result<Link, Error> {
        let limit = self.common.settings.connect_timeout;
        timeout(limit, self.open()).await.map_err(|_| Error::Timeout)?
    }

    /// Makes a connection that can be asked: logged in, with the script loaded and the server's time known.
    async fn open(&self) -> Result<Link, Error> {
        let address = match &self.place {
            Place::Fixed(address) => address.clone(),
            Place::Sentinel { sentinels, master, login } => ask_sentinels(sentinels, master, login).await?,
        };
        let mut link = Link::open(&address, &self.common.login).await?;
        let connection = link.connection.clone();
        link.keep_going(self.prepare(connection)).await?;
        Ok(link)
    }

    async fn prepare(&self, mut connection: MultiplexedConnection) -> Result<(), Error> {
        self.load_script(&mut connection).await?;
        self.shared.clock.forget();
        let asked = stopwatch::micros();
        let empty = sending::of_nothing(&self.common.source);
        let reply = connection.send_packed_command(&empty).await.map_err(|error| Error::from_error(&error))?;
        let Value::BulkString(reply) = reply else { return Err(Error::Garbled) };
        let (now, _) = read_reply(&reply, [])?;
        self.shared.clock.note(asked, stopwatch::micros(), now);
        self.look_at(&mut connection).await
    }

    pub(super) async fn load_script(&self, connection: &mut MultiplexedConnection) -> Result<(), Error> {
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(&self.common.source.text).to_owned();
        connection.send_packed_command(&load).await.map_err(|error| Error::from_error(&error))?;
        count(&self.common.counters.scripts_loaded);
        Ok(())
    }

    /// Finds out whether the server accepts writes, and whether it may evict keys. If the ACL user may not ask this,
    /// the connection is used anyway.
    async fn look_at(&self, connection: &mut MultiplexedConnection) -> Result<(), Error> {
        for section in ["replication", "memory"] {
            let info = redis::cmd("INFO").arg(section).to_owned();
            let Ok(Value::BulkString(text)) = connection.send_packed_command(&info).await else { continue };
            let text = String::from_utf8_lossy(&text);
            if text.contains("role:slave") {
                return Err(Error::ReadOnly);
            }
            if let Some(policy) = text.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")) {
                self.note_eviction(Some(policy.trim()));
            }
        }
        Ok(())
    }
}
