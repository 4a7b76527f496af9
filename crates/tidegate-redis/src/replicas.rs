//! [`Replicas`]: how many replicas are to have a charge before its caller is answered.

use std::time::Duration;

use redis::{Value, aio::MultiplexedConnection};

/// So many replicas, waited for so long at the most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replicas {
    pub(crate) count: u32,
    pub(crate) at_most: Duration,
}

impl Replicas {
    /// Whether they have what was written over this connection so far. Callers wait for `timeout`, and one that has just missed
    /// a call waits for the next one, too: so one takes no more than a third of that.
    pub(crate) async fn have_it(self, mut connection: MultiplexedConnection, timeout: Duration) -> bool {
        // To Redis, 0 is forever.
        let millis = self.at_most.min(timeout / 3).as_millis().max(1);
        let mut question = redis::cmd("WAIT");
        question.arg(self.count).arg(u64::try_from(millis).unwrap_or(u64::MAX));
        let answer = connection.send_packed_command(&question).await;
        matches!(answer, Ok(Value::Int(count)) if count >= i64::from(self.count))
    }
}
