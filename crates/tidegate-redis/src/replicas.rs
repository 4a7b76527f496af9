//! [`Replicas`]: how many replicas must have a charge before its caller is answered.

use std::time::Duration;

use redis::{Value, aio::MultiplexedConnection};

/// The number of replicas, and the maximum time to wait for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replicas {
    pub(crate) count: u32,
    pub(crate) at_most: Duration,
}

impl Replicas {
    /// Returns whether the replicas have everything that was written over this connection. Callers wait for `timeout`, and a caller
    /// that has just missed a call waits for the next one, too. So one wait takes at most a third of it.
    pub(crate) async fn confirm(self, mut connection: MultiplexedConnection, timeout: Duration) -> bool {
        // Redis would wait without a limit for 0.
        let millis = self.at_most.min(timeout / 3).as_millis().max(1);
        let mut command = redis::cmd("WAIT");
        command.arg(self.count).arg(u64::try_from(millis).unwrap_or(u64::MAX));
        let answer = connection.send_packed_command(&command).await;
        matches!(answer, Ok(Value::Int(count)) if count >= i64::from(self.count))
    }
}
