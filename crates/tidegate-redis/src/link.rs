//! [`Link`]: a connection to a server, kept going by the task that uses it.
//!
//! A connection of the client library is a handle, and work that moves bytes between the handle and the socket. Usually that
//! work is a task of its own. Here the task that asks does it in passing: to wake another one up, for each call there and back,
//! costs more than the work.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Context,
};

use futures_util::future::select_ok;
use redis::{AsyncConnectionConfig, RedisError, aio::MultiplexedConnection};
use tokio::net::{TcpStream, lookup_host};

use crate::{
    error::Error,
    target::{Address, Login},
};

/// A connection, which goes on only [`while`](Self::keep_going) something is done over it.
pub(crate) struct Link {
    pub(crate) connection: MultiplexedConnection,
    /// None where the library does it, and once the connection has ended.
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Link {
    /// Connects and logs in.
    pub(crate) async fn open(address: &Address, login: &Login) -> Result<Self, Error> {
        let failed = |error: RedisError| Error::from_error(&error);
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        if login.is_encrypted() {
            // The library alone knows how, and keeps such a connection going by itself.
            let client = login.client(address).map_err(|error| Error::Refused(error.to_string()))?;
            let connection = client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)?;
            return Ok(Self { connection, work: None });
        }
        let stream = connect(address).await.map_err(|error| failed(error.into()))?;
        let connecting = MultiplexedConnection::new_with_config(login.settings(), stream, config);
        let (connection, work) = connecting.await.map_err(failed)?;
        Ok(Self { connection, work: Some(Box::pin(work)) })
    }

    /// Does something over the connection.
    pub(crate) async fn keep_going<T>(&mut self, doing: impl Future<Output = T>) -> T {
        let mut doing = pin!(doing);
        poll_fn(|context| {
            // What has come is brought in first, and what follows from it leaves at once.
            self.work(context);
            let done = doing.as_mut().poll(context);
            self.work(context);
            done
        })
        .await
    }

    fn work(&mut self, context: &mut Context<'_>) {
        if let Some(work) = &mut self.work
            && work.as_mut().poll(context).is_ready()
        {
            // The connection is closed; whoever waits for an answer is told.
            self.work = None;
        }
    }
}

/// Connects to the first of a host's addresses that answers.
async fn connect(address: &Address) -> std::io::Result<TcpStream> {
    let found = lookup_host((address.host.as_str(), address.port)).await?;
    let attempts: Vec<_> = found.map(|at| Box::pin(TcpStream::connect(at))).collect();
    if attempts.is_empty() {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    let (stream, _) = select_ok(attempts).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
