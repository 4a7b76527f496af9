//! Which server is the master, as sentinels tell it.

use std::time::Duration;

use redis::AsyncConnectionConfig;
use tokio::time::timeout;

use crate::{
    error::Error,
    target::{Address, Login},
};

/// Asks the sentinels, one after the other, which server is the master.
pub(crate) async fn ask_sentinels(sentinels: &[Address], master: &str, login: &Login) -> Result<Address, Error> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let mut question = redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(master);
    // One that hangs must not keep us from asking the others.
    let patience = Duration::from_millis(100);
    for sentinel in sentinels {
        let ask = async {
            let client = login.client(sentinel).ok()?;
            let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.ok()?;
            let answer = connection.send_packed_command(&question).await.ok()?;
            let (host, port): (String, u16) = redis::from_redis_value(answer).ok()?;
            Some(Address { host, port })
        };
        if let Ok(Some(address)) = timeout(patience, ask).await {
            return Ok(address);
        }
    }
    Err(Error::Unreachable)
}
