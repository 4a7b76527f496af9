//! [`Connection`]: an open connection to the root.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisResult, Value, aio::MultiplexedConnection};
use rustls::ClientConfig;
use tokio::{sync::Notify, time::timeout};

use crate::{
    error::Error,
    stream::{RootStream, Unparsed},
    url::RootUrl,
};

/// How long it may take to connect, to log in and to find out whether it is a Tidegate: several round trips.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection on which many requests are under way at once. It is cheap to clone.
#[derive(Clone)]
pub(crate) struct Connection {
    requests: MultiplexedConnection,
    unparsed: Unparsed,
    given_up: Arc<Notify>,
}

impl Connection {
    /// Connects, logs in, and checks that the server is a Tidegate. The future ends with the connection.
    pub(crate) async fn open(
        root: &RootUrl,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<(Self, impl Future<Output = ()> + Send + use<>), Error> {
        let late = |_| Error::Unreachable("it did not answer in time".to_owned());
        timeout(CONNECT_TIMEOUT, Self::open_and_check(root, tls)).await.map_err(late)?
    }

    async fn open_and_check(
        root: &RootUrl,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<(Self, impl Future<Output = ()> + Send + use<>), Error> {
        let failed = |error: std::io::Error| Error::Unreachable(error.to_string());
        let (stream, unparsed) = RootStream::connect(root, tls).await.map_err(failed)?;
        let mut login = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(token) = &root.token {
            login = login.set_password(token.clone());
        }
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connecting = MultiplexedConnection::new_with_config(&login, stream, config);
        let (requests, io) = connecting.await.map_err(|error| Error::of_connecting(&error))?;
        let given_up = Arc::new(Notify::new());
        let connection = Self { requests, unparsed, given_up: Arc::clone(&given_up) };
        // The library's future is not `Send` by its type, so it is moved to a task of its own.
        let io = tokio::spawn(io);
        let ended = async move {
            let abort = io.abort_handle();
            tokio::select! {
                _ = io => {}
                () = given_up.notified() => abort.abort(),
            }
        };
        connection.check_server().await?;
        Ok((connection, ended))
    }

    async fn check_server(&self) -> Result<(), Error> {
        let info = redis::cmd("INFO").arg("server").to_owned();
        let answer = self.answer(info).await.map_err(|error| Error::of_connecting(&error))?;
        let text = match answer {
            Value::BulkString(text) => String::from_utf8_lossy(&text).into_owned(),
            Value::VerbatimString { text, .. } => text,
            _ => String::new(),
        };
        if text.contains("tidegate_version:") {
            return Ok(());
        }
        let version = text.lines().find(|line| line.contains("_version:")).unwrap_or("it has no tidegate_version");
        Err(Error::NotTidegate(version.chars().take(80).collect()))
    }

    /// Sends a request and waits for the answer.
    pub(crate) async fn send(&self, command: Cmd) -> Result<Value, Error> {
        self.answer(command).await.map_err(|error| Error::of_request(&error))
    }

    async fn answer(&self, command: Cmd) -> RedisResult<Value> {
        let answer = self.requests.clone().send_packed_command(&command).await;
        self.unparsed.store(0, Relaxed);
        answer.and_then(Value::extract_error)
    }

    /// Closes the connection, because the root does not answer on it. Requests that are under way fail.
    pub(crate) fn give_up(&self) {
        self.given_up.notify_one();
    }
}
