-- The algorithms: what is in use at a moment, and how long until it falls to a level. The same formulas as in the library's
-- `tracks`, one for one. A track is what one limit reads: its kind, its window (`w`), its buckets (`nb`), what drains from a
-- debt in a window (`drain`), and
--
--   log      `log`, dated in microseconds
--   counter  `current` and `previous`: units of the window that holds the newest charge, and of the one before
--   buckets  `log`, dated in bucket numbers, or in microseconds if `dated`
--   fixed    `current`
--   gcra     `high` and `low`: the debt times the max, in unit-microseconds
--
-- `newest` is the time of the newest charge, as of which the state is; `at` is never before it.

local function window_start(w, t)
  return floor(t / w) * w
end

local function bucket(track, t)
  local w, n = track.w, track.nb
  local whole = floor(t / w)
  return whole * n + mul_div(t - whole * w, n, w)
end

-- The first microsecond of a bucket, less `t`.
local function instant_less(track, number, t)
  local w, n = track.w, track.nb
  local whole = floor(number / n)
  return (whole * w - t) + mul_div_up(number - whole * n, w, n)
end

-- The counts as they stand at a moment, and how much is left of the window that holds it.
local function counts_at(track, newest, at)
  local w = track.w
  local start, now = window_start(w, newest), window_start(w, at)
  local left = w - (at - now)
  if now == start then return track.current, track.previous, left end
  if now == start + w then return 0, track.current, left end
  return 0, 0, left
end

-- The longest time left at which no more than `level` of `count` is still counted.
local function longest_left(count, w, level)
  if count <= level then return w end
  return min(mul_div_up(level + 1, w, count) - 1, w)
end

-- What is left of a debt.
local function debt_at(track, newest, at)
  local drained_high, drained_low = mul(at - newest, track.drain)
  local high, low = track.high - drained_high, track.low - drained_low
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

local function horizon_of(track, at)
  if track.kind == LOG then return at - track.w end
  if track.dated then return instant_less(track, bucket(track, at) - track.nb, 0) - 1 end
  return bucket(track, at) - track.nb - 1
end

local USED = {
  [LOG] = function(track, _, at)
    track.place = locate(track.log, horizon_of(track, at), track.hint and track.log.hints[track.hint])
    return units_after(track.log, track.place)
  end,
  [COUNTER] = function(track, newest, at)
    local current, previous, left = counts_at(track, newest, at)
    if previous == 0 then return current end
    return current + mul_div(previous, left, track.w)
  end,
  [FIXED] = function(track, newest, at)
    if window_start(track.w, newest) == window_start(track.w, at) then return track.current end
    return 0
  end,
  [GCRA] = function(track, newest, at)
    local high, low = debt_at(track, newest, at)
    return div_up(high, low, track.w)
  end,
}
USED[BUCKETS] = USED[LOG]

-- How long from `at` until no more than `level` units are in use, of which there are `used`, more than that.
local FALLS = {
  [LOG] = function(track, _, at, level, used)
    local log, time = track.log, nil
    if level == 0 then
      time = last_time(log)
    else
      local before = sub(units_before(log, track.place), log_start(log))
      time = time_of_unit(log, before + used - level, track.place)
    end
    if track.kind == LOG then return time - at + track.w end
    if track.dated then time = bucket(track, time) end
    return instant_less(track, time + track.nb + 1, at)
  end,
  [COUNTER] = function(track, newest, at, level)
    local current, previous, left = counts_at(track, newest, at)
    local w = track.w
    if current <= level then
      local kept = longest_left(previous, w, level - current)
      if kept > 0 then return max(0, left - kept) end
    end
    return left + w - longest_left(current, w, level)
  end,
  [FIXED] = function(track, _, at)
    return track.w - (at - window_start(track.w, at))
  end,
  [GCRA] = function(track, newest, at, level)
    local high, low = debt_at(track, newest, at)
    local kept_high, kept_low = mul(level, track.w)
    high, low = high - kept_high, low - kept_low
    if low < 0 then high, low = high - 1, low + TWO48 end
    if high < 0 then return 0 end
    return div_up(high, low, track.drain)
  end,
}
FALLS[BUCKETS] = FALLS[LOG]

-- Adds units to a log that is kept until `kept`; whether they had to be joined with the charge before.
local function charge_log(log, kept, time, units, join)
  log.floor = max(log.floor, kept)
  local place = locate(log, kept, log.hints[log.longest or 1])
  local held = units_after(log, place)
  if units > SATURATION - held then units = SATURATION - held end
  prune(log, place)
  log.hints[log.longest or 1] = place
  return append(log, time, units, join)
end

local CHARGE = {
  [COUNTER] = function(track, newest, at, units)
    local current, previous = counts_at(track, newest, at)
    track.current, track.previous = min(current + units, SATURATION), previous
  end,
  [FIXED] = function(track, newest, at, units)
    track.current = min(USED[FIXED](track, newest, at) + units, SATURATION)
  end,
  [GCRA] = function(track, newest, at, units)
    local high, low = debt_at(track, newest, at)
    local more_high, more_low = mul(units, track.w)
    high, low = high + more_high, low + more_low
    if low >= TWO48 then high, low = high + 1, low - TWO48 end
    local most_high, most_low = mul(SATURATION, track.drain)
    if high > most_high or (high == most_high and low > most_low) then high, low = most_high, most_low end
    track.high, track.low = high, low
  end,
  [BUCKETS] = function(track, _, at, units)
    local now = bucket(track, at)
    return charge_log(track.log, now - track.nb - 1, now, units, false)
  end,
}

-- Gives units back to the moment they were charged; whether there were any.
local REFUND = {
  [COUNTER] = function(track, newest, at, units, charged_at)
    local w = track.w
    local slot, held = window_start(w, charged_at), window_start(w, newest)
    if slot < window_start(w, at) - w then return false end
    local name = slot == held and 'current' or slot == held - w and 'previous'
    if not name then return false end
    local returned = min(units, track[name])
    track[name] = track[name] - returned
    return returned > 0
  end,
  [FIXED] = function(track, newest, at, units, charged_at)
    if charged_at < window_start(track.w, at) then return false end
    local returned = min(units, USED[FIXED](track, newest, at))
    track.current = track.current - returned
    return returned > 0
  end,
  [GCRA] = function(track, newest, at, units, charged_at)
    local worth = { drain = track.drain }
    worth.high, worth.low = mul(units, track.w)
    local high, low = debt_at(worth, charged_at, at)
    local left_high, left_low = debt_at(track, newest, at)
    if high > left_high or (high == left_high and low > left_low) then high, low = left_high, left_low end
    if high == 0 and low == 0 then return false end
    track.high, track.low = track.high - high, track.low - low
    if track.low < 0 then track.high, track.low = track.high - 1, track.low + TWO48 end
    return true
  end,
  [BUCKETS] = function(track, _, at, units, charged_at)
    local charged = bucket(track, charged_at)
    return charged >= bucket(track, at) - track.nb and take_back(track.log, charged, units) > 0
  end,
}

-- A track in which nothing is in use. The limits of a log share one, which is made apart.
local function empty_track(kind, w, nb, drain)
  return { kind = kind, w = w, nb = nb, drain = drain, current = 0, previous = 0, high = 0, low = 0 }
end
