//! The scripts of other projects, and the commands that call them.

use std::time::{Duration, SystemTime};

use redis::Cmd;

use super::RedisBenchmark;

/// From "Building a Sliding Window Rate Limiter in Redis for a Multi-Region Video API" (dev.to), as printed there.
const SORTED_SET: &str = r"
local key    = KEYS[1]
local window = tonumber(ARGV[1]) -- microseconds
local limit  = tonumber(ARGV[2])
local cost   = tonumber(ARGV[3])
local member = ARGV[4]

local t   = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

redis.call('ZREMRANGEBYSCORE', key, 0, now - window)

local used = redis.call('ZCARD', key)
if used + cost > limit then
    local oldest = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    local retryAfter = 1
    if oldest[2] then
        retryAfter = math.ceil((tonumber(oldest[2]) + window - now) / 1000000)
    end
    return {0, limit - used, retryAfter}
end

for i = 1, cost do
    redis.call('ZADD', key, now, member .. ':' .. i)
end
redis.call('PEXPIRE', key, math.ceil(window / 1000) + 1000)

return {1, limit - used - cost, 0}
";

/// The sliding window counter that a design document gives in prose and pseudocode, written out: a key for the
/// window and one for the window before it. The caller's clock determines the windows, as in the document. A counter
/// gets its expiry once, with its first request.
const TWO_KEYS: &str = r"
local limit  = tonumber(ARGV[1])
local window = tonumber(ARGV[2]) -- milliseconds
local now    = tonumber(ARGV[3]) -- milliseconds

local current  = tonumber(redis.call('GET', KEYS[1]) or '0')
local previous = tonumber(redis.call('GET', KEYS[2]) or '0')
local elapsed  = now % window
local weight   = 1 - elapsed / window

local effective = current + previous * weight
if effective < limit then
    if redis.call('INCR', KEYS[1]) == 1 then
        redis.call('PEXPIRE', KEYS[1], 2 * window)
    end
    return {1, math.floor(limit - effective - 1), 0}
end
return {0, 0, window - elapsed}
";

/// Maximum number of requests of each key in a window, for all contenders.
pub(super) const LIMIT: u64 = 100;
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// The reply of a rival's script: whether the request is allowed, the remaining units, and the wait.
pub(super) type ScriptReply = (i64, i64, i64);

/// A rival's script.
#[derive(Clone, Debug)]
pub(super) struct Rival {
    pub(super) name: &'static str,
    pub(super) source: &'static str,
    sha: String,
    command: fn(&Rival, &str) -> Cmd,
}

impl Rival {
    /// The script for this benchmark.
    pub(super) fn of(benchmark: RedisBenchmark) -> Self {
        match benchmark {
            RedisBenchmark::Counter => Self::new("two-key counter", TWO_KEYS, two_keys),
            _ => Self::new("sorted set", SORTED_SET, sorted_set),
        }
    }

    fn new(name: &'static str, source: &'static str, command: fn(&Self, &str) -> Cmd) -> Self {
        let sha = redis::Script::new(source).get_hash().to_owned();
        Self { name, source, sha, command }
    }

    /// The call for one request.
    pub(super) fn command(&self, key: &str) -> Cmd {
        (self.command)(self, key)
    }
}

fn sorted_set(rival: &Rival, key: &str) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(&rival.sha).arg(1).arg(key);
    command.arg(micros(WINDOW)).arg(LIMIT).arg(1).arg(member());
    command
}

fn two_keys(rival: &Rival, key: &str) -> Cmd {
    let (now, window) = (millis(since_epoch()), millis(WINDOW));
    let number = now / window;
    let mut command = redis::cmd("EVALSHA");
    // The braces put both keys into one slot of a cluster.
    command.arg(&rival.sha).arg(2).arg(format!("{{{key}}}:{number}")).arg(format!("{{{key}}}:{}", number - 1));
    command.arg(LIMIT).arg(window).arg(now);
    command
}

/// Returns a unique member of the sorted set: eight random bytes.
pub(super) fn member() -> String {
    format!("{:016x}", rand::random::<u64>())
}

#[expect(clippy::disallowed_methods, reason = "the rival uses the caller's clock")]
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
