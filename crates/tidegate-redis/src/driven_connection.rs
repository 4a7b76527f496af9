//! [`DrivenConnection`]: a connection to a server whose input and output the task that uses it does itself.
//!
//! A connection of the client library is a handle, and a future that moves bytes between the handle and the socket. Usually that
//! future runs in a task of its own. Here the task that sends requests polls it: to wake up another task twice for each call
//! costs more than the input and output.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Context,
    time::Duration,
};

use futures_util::future::select_ok;
use redis::{AsyncConnectionConfig, Cmd, RedisError, Value, aio::MultiplexedConnection};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use crate::{
    error::Error,
    target::{Address, Login},
};

/// A connection that makes progress only while an operation is [driven](Self::drive).
pub(crate) struct DrivenConnection {
    pub(crate) connection: MultiplexedConnection,
    /// `None` if the library runs it, and once the connection has ended.
    io: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// Callers limit the time of connecting and of each request.
fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None)
}

/// Sends one command over a connection of its own. Returns `None` if it fails or takes longer than `max_time`.
pub(crate) async fn query(login: &Login, address: &Address, command: &Cmd, max_time: Duration) -> Option<Value> {
    let query = async {
        let client = login.client(address).ok()?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config()).await.ok()?;
        connection.send_packed_command(command).await.ok()
    };
    timeout(max_time, query).await.ok().flatten()
}

impl DrivenConnection {
    /// Connects and logs in.
    pub(crate) async fn open(address: &Address, login: &Login) -> Result<Self, Error> {
        let failed = |error: RedisError| Error::from_error(&error);
        if login.tls {
            // Only the library can set up TLS, and it runs such a connection in a task of its own.
            let client = login.client(address).map_err(|error| Error::Refused(error.to_string()))?;
            let connection = client.get_multiplexed_async_connection_with_config(&config()).await.map_err(failed)?;
            return Ok(Self { connection, io: None });
        }
        let stream = connect(address).await.map_err(|error| failed(error.into()))?;
        let connecting = MultiplexedConnection::new_with_config(&login.settings, stream, config());
        let (connection, io) = connecting.await.map_err(failed)?;
        Ok(Self { connection, io: Some(Box::pin(io)) })
    }

    /// Runs an operation that uses the connection.
    pub(crate) async fn drive<T>(&mut self, operation: impl Future<Output = T>) -> T {
        let mut operation = pin!(operation);
        poll_fn(|context| {
            // Input is read before the operation, and the operation's output is written at once.
            self.poll_io(context);
            let done = operation.as_mut().poll(context);
            self.poll_io(context);
            done
        })
        .await
    }

    fn poll_io(&mut self, context: &mut Context<'_>) {
        if let Some(io) = &mut self.io
            && io.as_mut().poll(context).is_ready()
        {
            // The connection is closed. The library fails the requests that wait for an answer.
            self.io = None;
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
