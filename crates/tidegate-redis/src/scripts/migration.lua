-- Changes of a policy that keep the history, as in the library's `migration`.
--
-- KEYS   not read
-- ARGV   not read
-- reply  none: functions on states
--
-- Between log, counter, buckets and fixed window, the state becomes a log of exact times that every layout can read.
-- The migration lasts until the longest window of both layouts has passed since the last change. To, from and between
-- gcra, the units in use become one charge when the state is charged.

-- Returns the first time whose units a limit still has.
local function counted_since(limit, newest)
  if limit.kind == COUNTER then return window_start(limit.window, newest) - limit.window end
  if limit.kind == BUCKETS then return instant_less(limit, bucket(limit, newest) - limit.buckets, 0) end
  return window_start(limit.window, newest)
end

-- Returns the time slots of a limit, newest first: first time, last time, units.
local function time_slots(limit, newest)
  local start, window = window_start(limit.window, newest), limit.window
  if limit.kind == FIXED then return { { start, start + window - 1, limit.current } } end
  if limit.kind == COUNTER then
    return { { start, start + window - 1, limit.current }, { start - window, start - 1, limit.previous } }
  end
  local found = {}
  if limit.kind == BUCKETS then
    local slot
    visit_newest_first(limit.log, limit.is_dated and horizon_of(limit, newest) or -TWO53, function(time, units)
      local number = limit.is_dated and bucket(limit, time) or time
      if slot and slot.number == number then
        slot[3] = slot[3] + units
      else
        slot = { instant_less(limit, number, 0), instant_less(limit, number + 1, 0) - 1, units, number = number }
        found[#found + 1] = slot
      end
    end)
  end
  return found
end

-- Returns a separate state for logs that replace those of `state` when it adopts them.
local function separate_from(state)
  return { key = state.key, changed_fields = {}, deleted_fields = {} }
end

-- Returns the log that has all units of a state with exact times, or nil.
local function dated_log(state)
  if state.migration then return state.log end
  return state.layout.kind == LOG and state.layout.n > 0 and state.limits[1].log or nil
end

-- Returns all units of a state with their times, as one log for all limits. If the state has no such log, the log is
-- separate until the state adopts it.
local function history(state)
  local dated = dated_log(state)
  if dated then return dated end
  if state.layout.n == 0 then return new_log(separate_from(state), 1, 1) end
  local newest = state.newest
  local limits = {}
  for i, limit in ipairs(state.limits) do limits[i] = limit end
  table.sort(limits, function(a, b) return a.window < b.window end)
  local entries, dated_since = {}, TWO53
  for _, limit in ipairs(limits) do
    -- A shorter window has already dated the newest of these units.
    local dated_units = 0
    for _, entry in ipairs(entries) do dated_units = dated_units + entry[2] end
    for _, slot in ipairs(time_slots(limit, newest)) do
      local first, last, units = slot[1], slot[2], slot[3]
      local extra = max(units - dated_units, 0)
      dated_units = dated_units - (units - extra)
      if extra > 0 then
        entries[#entries + 1] = { min(last, newest, max(first, dated_since - 1)), extra }
      end
    end
    dated_since = min(dated_since, counted_since(limit, newest))
  end
  table.sort(entries, function(a, b) return a[1] < b[1] end)
  local log = new_log(separate_from(state), 1, 2 * state.layout.longest)
  for _, entry in ipairs(entries) do append(log, entry[1], entry[2], false) end
  return log
end

-- Makes a separate log, and the fields that it changes, those of the state.
local function adopt(state, log)
  if log.state ~= state then
    state.changed_fields, state.deleted_fields = log.state.changed_fields, log.state.deleted_fields
    state.replaces_fields = true
    log.state = state
  end
end

local function units_since(log, first)
  return units_left(log, first - 1, locate(log, first - 1, nil))
end

-- Returns the limits of `layout` for a log of exact times.
local function limits_from_log(log, layout, newest)
  local limits = {}
  for i = 1, layout.n do
    local limit = empty_limit(layout.kind, layout.window[i], layout.buckets[i], layout.drain[i])
    local start = window_start(limit.window, newest)
    if layout.kind == LOG then
      limit.log = log
    elseif layout.kind == BUCKETS then
      limit.log, limit.is_dated = log, true
    else
      limit.current = units_since(log, start)
      limit.previous = units_since(log, start - limit.window) - limit.current
    end
    limits[i] = limit
  end
  return limits
end

-- Ends a migration: the state is written in its own layout.
local function finish_migration(state)
  if not state.migration then return end
  local layout, log, newest = state.layout, state.log, state.newest
  local limits = limits_from_log(log, layout, newest)
  state.migration, state.log = nil, nil
  if layout.kind == LOG then
    log.hints, log.longest, log.span = {}, layout.longest_index, layout.longest
    for i, limit in ipairs(limits) do
      log.hints[i], limit.hint = locate(log, -TWO53, nil), i
    end
  elseif layout.kind == BUCKETS then
    local separate = separate_from(state)
    for i, limit in ipairs(limits) do
      local numbered = new_log(separate, i, limit.buckets + 1)
      local last = bucket(limit, newest)
      local before = units_before(log, locate(log, instant_less(limit, last - limit.buckets, 0) - 1, nil))
      for number = last - limit.buckets, last do
        local after = units_before(log, locate(log, instant_less(limit, number + 1, 0) - 1, nil))
        if after ~= before then append(numbered, number, sub(after, before), false) end
        before = after
      end
      adopt(state, numbered)
      limit.log, limit.is_dated, limit.hint = numbered, nil, 1
    end
  end
  state.limits = limits
end

-- Moves the units in use at the newest charge to `now`, which is long before it: the clock that dated them was wrong.
local function rebase(state, now)
  finish_migration(state)
  local newest, separate = state.newest, separate_from(state)
  for i, limit in ipairs(state.limits) do
    if limit.kind == COUNTER then
      limit.current, limit.previous = min(USED[COUNTER](limit, newest, newest), SATURATION), 0
    elseif limit.kind == BUCKETS then
      local used = USED[BUCKETS](limit, newest, newest)
      limit.log = new_log(separate, i, limit.buckets + 1)
      limit.log.hints[1] = { page = 0, k = 0, before = 0 }
      if used > 0 then append(limit.log, bucket(limit, now), used, false) end
      adopt(state, limit.log)
    elseif limit.kind == LOG and i == 1 then
      move(limit.log, now - newest)
    end
  end
  state.newest = now
end

-- Returns a debt that takes the same time at another drain, rounded up.
local function with_drain(limit, drain)
  local micros, rest = div(limit.high, limit.low, limit.drain)
  local high, low = mul(micros, drain)
  low = low + mul_div_up(rest, drain, limit.drain)
  local carry = floor(low / TWO48)
  local other = empty_limit(GCRA, limit.window, limit.buckets, drain)
  other.high, other.low = high + carry, low - carry * TWO48
  return other
end

-- Returns the limits from which those of `layout` take their state, if either layout is gcra: those with the same
-- window, and for the others the next ones whose window no limit has.
local function limits_through_gcra(state, layout)
  local own = state.migration and limits_from_log(state.log, state.layout, state.newest) or state.limits
  local of_window, claimed = {}, {}
  for i = 1, layout.n do
    for j, limit in ipairs(own) do
      if limit.window == layout.window[i] then of_window[i], claimed[j] = limit, true end
    end
  end
  local limits, next_free = {}, 1
  for i = 1, layout.n do
    local limit = of_window[i]
    if not limit then
      while next_free <= #own and claimed[next_free] do next_free = next_free + 1 end
      limit, next_free = own[next_free], next_free + 1
    end
    if not limit then
      limit = empty_limit(layout.kind, layout.window[i], layout.buckets[i], layout.drain[i])
      if layout.kind == LOG or layout.kind == BUCKETS then limit.log = new_log({ key = state.key }, i, 1) end
    elseif limit.kind == GCRA and layout.kind == GCRA and limit.window == layout.window[i] then
      limit = with_drain(limit, layout.drain[i])
    end
    limits[i] = limit
  end
  return limits
end

-- Returns the limits by which a policy of `layout` reads a state.
local function limits_for(state, layout)
  local from = state.layout
  local same = from.bytes == layout.bytes
  if same and not state.migration then return state.limits end
  if from.kind == GCRA or layout.kind == GCRA then return limits_through_gcra(state, layout) end
  return limits_from_log(history(state), layout, state.newest)
end

-- Returns a state in which the units in use at `at` are one charge at that time.
local function as_one_charge(state, layout, limits, at)
  local newest = state.newest
  local charged = empty_limits(new_state(state.key, layout))
  charged.newest, charged.is_hash, charged.form, charged.replaces_fields = at, state.is_hash, state.form, true
  charged.override, charged.stored_override, charged.reservations = state.override, state.stored_override, state.reservations
  local most = 0
  for i, limit in ipairs(limits) do
    local used = USED[limit.kind](limit, newest, at)
    most = max(most, used)
    local to = charged.limits[i]
    if limit.kind == GCRA and layout.kind == GCRA and limit.window == to.window and limit.drain == to.drain then
      to.high, to.low = debt_at(limit, newest, at)
    elseif layout.kind ~= LOG and used > 0 then
      CHARGE[layout.kind](to, at, at, used)
    end
  end
  if layout.kind == LOG and layout.n > 0 and most > 0 then append(charged.limits[1].log, at, most, false) end
  return charged
end

-- Returns the state to charge under a policy of another layout.
local function migrated(state, layout, limits, at)
  local from = state.layout
  if from.kind == GCRA or layout.kind == GCRA then return as_one_charge(state, layout, limits, at) end
  local migration, log = state.migration, history(state)
  local exact = (migration and not migration.grids) or from.kind == LOG or layout.kind == LOG
  local grids
  if not exact then
    grids = {}
    for _, of in ipairs({ from, layout }) do
      for i = 1, of.n do grids[#grids + 1] = { window = of.window[i], buckets = of.buckets[i] } end
    end
  end
  adopt(state, log)
  if not migration then log.hints, log.longest = { log.hints[log.longest or 1] }, nil end
  local longest = max(migration and migration.longest or from.longest, layout.longest)
  state.migration = { changed_at = at, longest = longest, grids = grids }
  state.log, state.layout, state.limits = log, layout, {}
  log.span = 2 * longest
  return state
end

-- Charges a state of the policy's layout. Returns whether a log joined the charge with its newest entry.
local function charge(state, newest, at, units)
  local migration = state.migration
  if migration and at - migration.changed_at <= migration.longest then
    local log, join = state.log, migration.grids ~= nil
    for _, grid in ipairs(migration.grids or {}) do
      if bucket(grid, newest) ~= bucket(grid, at) then join = false end
    end
    local tail = log.tail
    join = join and tail.n > 0 and time_at(tail, tail.n) + log.shift == newest
    state.newest = at
    return charge_log(log, at - 2 * migration.longest, at, units, join)
  end
  finish_migration(state)
  state.newest = at
  local joined = false
  for i, limit in ipairs(state.limits) do
    if limit.log then
      limit.log.hints[limit.hint] = limit.position or locate(limit.log, horizon_of(limit, at), nil)
    end
    if limit.kind == LOG then
      if i == #state.limits then joined = charge_log(limit.log, at - state.layout.longest, at, units, false) end
    elseif CHARGE[limit.kind](limit, newest, at, units) then
      joined = true
    end
  end
  return joined
end

-- Returns the first and the last time of the charges that a refund at `at` does not tell from one at `charged_at`, in a state
-- with a log of exact times, and whether they are in use then. Returns nil if they don't count any more.
local function slot_of_charge(state, at, charged_at)
  local layout = state.layout
  if layout.kind == LOG then
    if charged_at > at - layout.longest then return charged_at, charged_at, true end
    return nil
  end
  if not layout.finest then
    for i = 1, layout.n do
      local limit = empty_limit(layout.kind, layout.window[i], layout.buckets[i], 0)
      local finest, widest = layout.finest, layout.widest
      if not finest or floor(limit.window / limit.buckets) < floor(finest.window / finest.buckets) then layout.finest = limit end
      if not widest or limit.window > widest.window then layout.widest = limit end
    end
  end
  local number = bucket(layout.finest, charged_at)
  local last = instant_less(layout.finest, number + 1, 0) - 1
  if last < counted_since(layout.widest, state.newest) then return nil end
  return instant_less(layout.finest, number, 0), last, last >= counted_since(layout.widest, at)
end

-- Returns units to their charge in the layout of the state. Returns whether there were any, and whether they were in use.
local function refund(state, at, units, charged_at)
  local log, layout = dated_log(state), state.layout
  if layout.n == 0 then return false end
  if log then
    local first, last, in_use = slot_of_charge(state, at, charged_at)
    if not first then return false end
    return remove_from_slots(log, { { first = first, last = last, units = units } }) > 0, in_use
  end
  local changed, returned = false, false
  for _, limit in ipairs(state.limits) do
    local any, in_use = REFUND[layout.kind](limit, state.newest, at, units, charged_at)
    if any then changed, returned = true, returned or in_use end
  end
  return changed, returned
end

-- Changes the drain of a debt, if nothing else differs between the layouts. Returns whether that is so.
local function change_drain(state, layout)
  local from = state.layout
  if from.bytes == layout.bytes or from.kind ~= GCRA or layout.kind ~= GCRA or from.n ~= layout.n then return false end
  for i = 1, from.n do
    if from.window[i] ~= layout.window[i] then return false end
  end
  for i, limit in ipairs(state.limits) do state.limits[i] = with_drain(limit, layout.drain[i]) end
  state.layout = layout
  return true
end
