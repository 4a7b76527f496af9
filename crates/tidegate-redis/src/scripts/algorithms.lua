-- The algorithms: the units in use at a time, and the time until they fall to a level. The formulas are those of the
-- library's `algorithms`.
--
-- KEYS   not read
-- ARGV   not read
-- reply  none: tables of functions, by algorithm (`kind`)
--
-- A limit is a table with its algorithm, its window, its number of buckets, the units that drain from a debt in a
-- window (`drain`), and its state:
--
--   log      `log`, dated in microseconds
--   counter  `current` and `previous`: the units of the window of the newest charge, and of the window before it
--   buckets  `log`, dated in bucket numbers, or in microseconds if `is_dated`
--   fixed    `current`
--   gcra     `high` and `low`: the debt times the limit's maximum, in unit-microseconds
--
-- `newest` is the time of the newest charge. The state is as of that time. `at` is never before it.

local function window_start(window, t)
  return floor(t / window) * window
end

local function bucket(limit, t)
  local window, n = limit.window, limit.buckets
  local whole = floor(t / window)
  return whole * n + mul_div(t - whole * window, n, window)
end

-- Returns the first microsecond of a bucket minus `t`. The difference is exact where the time itself may not be.
local function instant_less(limit, number, t)
  local window, n = limit.window, limit.buckets
  local whole = floor(number / n)
  return (whole * window - t) + mul_div_up(number - whole * n, window, n)
end

-- Returns the counts of the current and the previous window at a time, and the time left of the current window.
local function counts_at(limit, newest, at)
  local window = limit.window
  local start, now = window_start(window, newest), window_start(window, at)
  local left = window - (at - now)
  if now == start then return limit.current, limit.previous, left end
  if now == start + window then return 0, limit.current, left end
  return 0, 0, left
end

-- Returns the longest remaining time of a window at which at most `level` of `count` units still count.
local function longest_left(count, window, level)
  if count <= level then return window end
  return min(mul_div_up(level + 1, window, count) - 1, window)
end

-- Returns the debt that remains at a time.
local function debt_at(limit, newest, at)
  local drained_high, drained_low = mul(at - newest, limit.drain)
  local high, low = limit.high - drained_high, limit.low - drained_low
  if low < 0 then high, low = high - 1, low + TWO48 end
  if high < 0 then return 0, 0 end
  return high, low
end

local function div_up(high, low, c)
  if (high * TWO48 + low) / c > SATURATION then return SATURATION end
  local quotient, rest = div(high, low, c)
  if rest > 0 then return min(quotient + 1, SATURATION) end
  return quotient
end

local function horizon_of(limit, at)
  if limit.kind == LOG then return at - limit.window end
  if limit.is_dated then return instant_less(limit, bucket(limit, at) - limit.buckets, 0) - 1 end
  return bucket(limit, at) - limit.buckets - 1
end

local USED = {
  [LOG] = function(limit, _, at)
    local horizon, log = horizon_of(limit, at), limit.log
    limit.position = locate(log, horizon, limit.hint and log.hints[limit.hint])
    return units_left(log, horizon, limit.position)
  end,
  [COUNTER] = function(limit, newest, at)
    local current, previous, left = counts_at(limit, newest, at)
    if previous == 0 then return current end
    return current + mul_div(previous, left, limit.window)
  end,
  [FIXED] = function(limit, newest, at)
    if window_start(limit.window, newest) == window_start(limit.window, at) then return limit.current end
    return 0
  end,
  [GCRA] = function(limit, newest, at)
    local high, low = debt_at(limit, newest, at)
    return div_up(high, low, limit.window)
  end,
}
USED[BUCKETS] = USED[LOG]

-- Return the time from `at` until at most `level` units are in use. Now `used` units are, which is more.
local TIME_UNTIL = {
  [LOG] = function(limit, _, at, level, used)
    local log, time = limit.log, nil
    if level == 0 then
      time = last_time(log)
    else
      local before = sub(units_before(log, limit.position), log_start(log))
      time = time_of_unit(log, before + used - level, limit.position)
    end
    if limit.kind == LOG then return time - at + limit.window end
    if limit.is_dated then time = bucket(limit, time) end
    return instant_less(limit, time + limit.buckets + 1, at)
  end,
  [COUNTER] = function(limit, newest, at, level)
    local current, previous, left = counts_at(limit, newest, at)
    local window = limit.window
    if current <= level then
      local kept = longest_left(previous, window, level - current)
      if kept > 0 then return max(0, left - kept) end
    end
    return left + window - longest_left(current, window, level)
  end,
  [FIXED] = function(limit, _, at)
    return limit.window - (at - window_start(limit.window, at))
  end,
  [GCRA] = function(limit, newest, at, level)
    local high, low = debt_at(limit, newest, at)
    local kept_high, kept_low = mul(level, limit.window)
    high, low = high - kept_high, low - kept_low
    if low < 0 then high, low = high - 1, low + TWO48 end
    if high < 0 then return 0 end
    return div_up(high, low, limit.drain)
  end,
}
TIME_UNTIL[BUCKETS] = TIME_UNTIL[LOG]

-- Adds units to a log whose entries at or before `kept` are dropped. Returns whether they were joined with the newest
-- entry.
local function charge_log(log, kept, time, units, join)
  log.floor = max(log.floor, kept)
  local position = locate(log, kept, log.hints[log.longest or 1])
  local held = units_after(log, position)
  if units > SATURATION - held then units = SATURATION - held end
  prune(log, position)
  log.hints[log.longest or 1] = position
  return append(log, time, units, join)
end

local CHARGE = {
  [COUNTER] = function(limit, newest, at, units)
    local current, previous = counts_at(limit, newest, at)
    limit.current, limit.previous = min(current + units, SATURATION), previous
  end,
  [FIXED] = function(limit, newest, at, units)
    limit.current = min(USED[FIXED](limit, newest, at) + units, SATURATION)
  end,
  [GCRA] = function(limit, newest, at, units)
    local high, low = debt_at(limit, newest, at)
    local more_high, more_low = mul(units, limit.window)
    high, low = high + more_high, low + more_low
    if low >= TWO48 then high, low = high + 1, low - TWO48 end
    local max_high, max_low = mul(SATURATION, limit.drain)
    if high > max_high or (high == max_high and low > max_low) then high, low = max_high, max_low end
    limit.high, limit.low = high, low
  end,
  [BUCKETS] = function(limit, _, at, units)
    local now = bucket(limit, at)
    return charge_log(limit.log, now - limit.buckets - 1, now, units, false)
  end,
}

-- Return units to the time of their charge, if its slot is counted at the newest charge. The results are whether there were
-- any, and whether they were in use at `at`.
local REFUND = {
  [COUNTER] = function(limit, newest, at, units, charged_at)
    local window = limit.window
    local slot, held = window_start(window, charged_at), window_start(window, newest)
    local name = slot == held and 'current' or slot == held - window and 'previous'
    if not name then return false end
    local returned = min(units, limit[name])
    limit[name] = limit[name] - returned
    return returned > 0, slot >= window_start(window, at) - window
  end,
  [FIXED] = function(limit, newest, at, units, charged_at)
    if charged_at < window_start(limit.window, newest) then return false end
    local returned = min(units, limit.current)
    limit.current = limit.current - returned
    return returned > 0, charged_at >= window_start(limit.window, at)
  end,
  [GCRA] = function(limit, newest, at, units, charged_at)
    local worth = { drain = limit.drain }
    worth.high, worth.low = mul(units, limit.window)
    local high, low = debt_at(worth, charged_at, at)
    local left_high, left_low = debt_at(limit, newest, at)
    if high > left_high or (high == left_high and low > left_low) then high, low = left_high, left_low end
    if high == 0 and low == 0 then return false end
    limit.high, limit.low = limit.high - high, limit.low - low
    if limit.low < 0 then limit.high, limit.low = limit.high - 1, limit.low + TWO48 end
    return true, true
  end,
  [BUCKETS] = function(limit, newest, at, units, charged_at)
    local charged = bucket(limit, charged_at)
    if charged < bucket(limit, newest) - limit.buckets then return false end
    return remove_from_slots(limit.log, { { first = charged, last = charged, units = units } }) > 0, charged >= bucket(limit, at) - limit.buckets
  end,
}

-- Returns a limit with nothing in use. Limits of a log share one log, which the caller adds.
local function empty_limit(kind, window, buckets, drain)
  return { kind = kind, window = window, buckets = buckets, drain = drain, current = 0, previous = 0, high = 0, low = 0 }
end
