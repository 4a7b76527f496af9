//! The master of a set of sentinels.

use std::time::Duration;

use crate::{
    driven_connection::query,
    error::Error,
    target::{Address, Login},
};

/// How long one sentinel may take, so that a hung one does not delay the others.
const MAX_TIME: Duration = Duration::from_millis(100);

/// Returns the address of the master from the first sentinel that knows it.
pub(crate) async fn find_master(sentinels: &[Address], master: &str, login: &Login) -> Result<Address, Error> {
    let command = redis::cmd("SENTINEL").arg("get-master-addr-by-name").arg(master).to_owned();
    for sentinel in sentinels {
        if let Some(answer) = query(login, sentinel, &command, MAX_TIME).await
            && let Ok((host, port)) = redis::from_redis_value(answer)
        {
            return Ok(Address { host, port });
        }
    }
    Err(Error::Unreachable)
}
