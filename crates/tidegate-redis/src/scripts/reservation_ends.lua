-- The ends of reservations, and the time at which the units in use fall to a level, when reservations end meanwhile.
--
-- KEYS   not read
-- ARGV   not read
-- reply  none: functions on states with reservations
--
-- Without further requests the units in use never grow: a hold that ends gives units back, and a lease that ends becomes a
-- charge of the same units. So the time is found by a search over the ends, and between two ends by the algorithm itself.
-- The formulas are those of the library's `reservation::forecast`.

-- Charges a state, and converts it to a layout if it has another one. Returns the state, and whether the charge was joined
-- with the newest entry.
local function charge_state(state, layout, at, units)
  local newest = state.newest
  if state.layout.bytes ~= layout.bytes then
    local own_keep = state.own_keep
    state = migrated(state, layout, limits_for(state, layout), at)
    state.own_keep = own_keep
    if not state.migration then newest = at end
    state.reservations.is_reduced = true
  end
  local joined = charge(state, newest, at, units)
  if joined then state.reservations.is_reduced = true end
  return state, joined
end

local function give_back(state, layout, units, granted_at, at)
  if granted_at > state.newest then return end
  change_drain(state, layout)
  refund(state, at, units, granted_at)
end

-- Gives back or charges the units of a reservation at its end. Returns the state.
local function end_one(state, layout, record)
  if record.is_lease then return (charge_state(state, layout, record.ends, record.units)) end
  if record.is_released then give_back(state, layout, record.units, record.granted_at, record.ends) end
  return state
end

-- Gives the units of ended holds back to a log, each page of which is written once.
local function give_back_all(log, ended, longest)
  local units_at, times = {}, {}
  for _, record in ipairs(ended) do
    local time = record.granted_at
    if record.is_released and time > record.ends - longest and time > log.floor then
      if not units_at[time] then times[#times + 1] = time end
      units_at[time] = (units_at[time] or 0) + record.units
    end
  end
  table.sort(times)
  local number, page, first, last, taken_from
  local function flush()
    if number then remove_from_page(log, number, page, taken_from) end
  end
  for _, time in ipairs(times) do
    if not number or time - log.shift > last then
      flush()
      number, page = page_before(log, time)
      if number then
        first, last, taken_from = time_at(page, 1), time_at(page, page.n), {}
      end
    end
    if number and time - log.shift >= first then
      local k = count_until(page, time - log.shift, 0)
      if k > 0 and time_at(page, k) + log.shift == time then
        taken_from[k] = min(units_at[time], units_to(page, k) - units_to(page, k - 1))
      end
    end
  end
  flush()
end

-- The least number of holds whose units are given back together.
local MANY = 4

-- Ends all reservations that end by `at`. Returns the state.
local function end_until(state, layout, at)
  local ended = take_ended(state.reservations, at)
  local together = #ended >= MANY and layout.kind == LOG and layout.n > 0 and state.layout.bytes == layout.bytes
  for _, record in ipairs(ended) do together = together and not record.is_lease end
  if together and not state.migration then
    give_back_all(state.limits[1].log, ended, layout.longest)
    return state
  end
  for _, record in ipairs(ended) do state = end_one(state, layout, record) end
  return state
end

-- Returns the time from `at` until at most `level` units are in use, without reservations.
local function plain_wait(limit, newest, at, level)
  local used = USED[limit.kind](limit, newest, at)
  if used <= level then return 0 end
  return TIME_UNTIL[limit.kind](limit, newest, at, level, used)
end

-- Returns the first time, `at` or later, at which at most `level` units are in open holds.
local function held_falls_to(open, level, at)
  local left, time = open.held, at
  for _, page in ipairs(pages_of(open)) do
    if left - page.held > level then
      left = left - page.held
    else
      local s = records_of(open, page)
      for k = 1, page.n do
        if left <= level then return time end
        local record = record_at(s, k)
        if not record.is_lease then left, time = left - record.units, max(record.ends, at) end
      end
    end
  end
  return time
end

local function entry_of(limit, time)
  if limit.kind == LOG then return time end
  return bucket(limit, time)
end

-- Returns the first time at which a charge at `time` no longer counts.
local function expiry_of(limit, time)
  if limit.kind == LOG then return time + limit.window end
  return instant_less(limit, bucket(limit, time) + limit.buckets + 1, 0)
end

local function units_of(log, entry)
  return sub(units_after(log, locate(log, entry - 1, nil)), units_after(log, locate(log, entry, nil)))
end

-- Returns the units that each hold gives back, and those of each lease: lists of ends, expiries and units.
local function forecast_units(limit, open)
  local n, all = 0, all_records(open)
  -- The retry time and the reset time of a limit need the same lists.
  if all.limit == limit then return all.release_ends, all.expiries, all.release_units, all.leases end
  local left, ends, expiries, units, leases = {}, {}, {}, {}, {}
  for k = 1, all.n do
    local flags = all.flags[k]
    if flags % KEEPS == LEASE then
      leases[#leases + 1] = { expires = expiry_of(limit, all.ends[k]), units = all.units[k] }
      if limit.kind ~= LOG and open.is_reduced then
        local own = entry_of(limit, all.ends[k])
        left[own] = (left[own] or units_of(limit.log, own)) + all.units[k]
      end
    elseif flags % HAS_OTHERS == 0 then
      n = n + 1
      local taken = all.units[k]
      -- Otherwise each entry has all units of its open holds.
      if open.is_reduced then
        local own = entry_of(limit, all.granted_at[k])
        local rest = left[own] or units_of(limit.log, own)
        taken = min(taken, rest)
        left[own] = rest - taken
      end
      ends[n], expiries[n], units[n] = all.ends[k], expiry_of(limit, all.granted_at[k]), taken
    end
  end
  all.limit, all.release_ends, all.expiries, all.release_units, all.leases = limit, ends, expiries, units, leases
  return ends, expiries, units, leases
end

-- Returns the first time, `at` or later, at which at most `level` units are in use under a limit whose state is a log.
local function log_falls_to(limit, newest, open, level, at)
  local ends, expires_at, units, leases = forecast_units(limit, open)
  local function leased_at(time)
    local sum = 0
    for _, lease in ipairs(leases) do
      if lease.expires > time then sum = sum + lease.units end
    end
    return sum
  end
  local function used(time)
    local sum = USED[limit.kind](limit, newest, time) + leased_at(time)
    for k = 1, #ends do
      if ends[k] > time then break end
      if expires_at[k] > time then sum = sum - units[k] end
    end
    return sum
  end
  local changes = {}
  for k = 1, #ends do changes[k] = ends[k] end
  for _, lease in ipairs(leases) do changes[#changes + 1] = lease.expires end
  if #leases > 0 then table.sort(changes) end
  local later, above = 0, #changes + 1
  while above - later > 1 do
    local middle = floor((later + above) / 2)
    if used(changes[middle]) > level then later = middle else above = middle end
  end
  local start, finish = later == 0 and at or changes[later], changes[above] or TWO53
  if used(start) <= level then return start end
  -- No hold ends and no lease expires from here to `finish`. Entries that were given back expire.
  local given_back, units_at, expiries = 0, {}, {}
  for k = 1, #ends do
    if ends[k] > start then break end
    local expires = expires_at[k]
    if expires > start then
      given_back = given_back + units[k]
      if expires < finish then
        if not units_at[expires] then expiries[#expiries + 1] = expires end
        units_at[expires] = (units_at[expires] or 0) + units[k]
      end
    end
  end
  table.sort(expiries)
  local sums = { [0] = given_back }
  for i, expires in ipairs(expiries) do sums[i] = sums[i - 1] - units_at[expires] end
  local own = level - leased_at(start)
  local low, high = 0, #expiries + 1
  while high - low > 1 do
    local middle = floor((low + high) / 2)
    if USED[limit.kind](limit, newest, expiries[middle]) > own + sums[middle] then low = middle else high = middle end
  end
  local from = low == 0 and start or expiries[low]
  local falls = finish
  if own + sums[low] >= 0 then falls = from + plain_wait(limit, newest, from, own + sums[low]) end
  return min(falls, finish, expiries[low + 1] or finish)
end

-- The number of ends that are applied before the units in use are compared.
local BLOCK = 32

-- The same for a limit whose state is a few numbers: applies the ends to a copy of them.
local function numbers_fall_to(limit, newest, open, level, at)
  local copy = { kind = limit.kind, window = limit.window, drain = limit.drain }
  copy.current, copy.previous, copy.high, copy.low = limit.current, limit.previous, limit.high, limit.low
  local leased, start, all = open.leased, at, all_records(open)
  local function apply(k)
    local flags, ends = all.flags[k], all.ends[k]
    if flags % KEEPS == LEASE then
      CHARGE[copy.kind](copy, newest, ends, all.units[k])
      newest, leased = ends, leased - all.units[k]
    elseif flags % HAS_OTHERS == 0 then
      REFUND[copy.kind](copy, newest, ends, all.units[k], all.granted_at[k])
    end
  end
  -- Skips blocks of ends after which more units are in use.
  local k = 1
  while k <= all.n do
    local last = min(k + BLOCK - 1, all.n)
    local current, previous, high, low, before, leased_before = copy.current, copy.previous, copy.high, copy.low, newest, leased
    for i = k, last do apply(i) end
    if USED[copy.kind](copy, newest, all.ends[last]) + leased <= level then
      copy.current, copy.previous, copy.high, copy.low, newest, leased = current, previous, high, low, before, leased_before
      break
    end
    start, k = all.ends[last], last + 1
  end
  for i = k, all.n do
    local current, previous, high, low, before, leased_before = copy.current, copy.previous, copy.high, copy.low, newest, leased
    local ends = all.ends[i]
    apply(i)
    if USED[copy.kind](copy, newest, ends) + leased <= level then
      if leased_before > level then return ends end
      copy.current, copy.previous, copy.high, copy.low = current, previous, high, low
      return min(ends, start + plain_wait(copy, before, start, level - leased_before))
    end
    start = ends
  end
  return start + plain_wait(copy, newest, start, level)
end

local SHARED = { layout = true, override = true, reservations = true }

local function copy_of(value, seen)
  if type(value) ~= 'table' then return value end
  if seen[value] then return seen[value] end
  local copy = {}
  seen[value] = copy
  for name, item in pairs(value) do copy[name] = SHARED[name] and item or copy_of(item, seen) end
  return copy
end

-- The same for any state: applies the ends to copies of the whole state.
local function state_falls_to(state, layout, i, level, at)
  local open = state.reservations
  local records, copy, leased, later = listed_records(open), copy_of(state, {}), open.leased, nil
  for k, record in ipairs(records) do
    copy = end_one(copy, layout, record)
    if record.is_lease then leased = leased - record.units end
    local limit = limits_for(copy, layout)[i]
    if USED[limit.kind](limit, copy.newest, record.ends) + leased <= level then
      later = k
      break
    end
  end
  later = later or #records + 1
  copy, leased = copy_of(state, {}), open.leased
  for k = 1, later - 1 do
    copy = end_one(copy, layout, records[k])
    if records[k].is_lease then leased = leased - records[k].units end
  end
  local start, finish = later == 1 and at or records[later - 1].ends, records[later] and records[later].ends or TWO53
  if leased > level then return finish end
  return min(finish, start + plain_wait(limits_for(copy, layout)[i], copy.newest, start, level - leased))
end

-- Returns the time from `at` until at most `level` units are in use under a limit of a layout: the i-th with a window.
local function forecast_wait(state, layout, limit, i, level, at)
  local open = state.reservations
  local kind, has_own_layout = limit.kind, state.layout.bytes == layout.bytes and not state.migration
  if open.leases == 0 then
    local wait = plain_wait(limit, state.newest, at, level)
    if open.first_end >= at + wait then return wait end
    if level == 0 and kind == LOG and has_own_layout then
      -- The newest entry stays until it expires, unless holds charged all of it.
      local held = open.newest_hold == state.newest and open.held_at_newest or 0
      if units_of(limit.log, state.newest) > held then return wait end
    end
  end
  local position = limit.position
  local falls
  if not has_own_layout then
    falls = state_falls_to(state, layout, i, level, at)
  elseif kind == LOG or kind == BUCKETS then
    falls = log_falls_to(limit, state.newest, open, level, at)
  else
    falls = numbers_fall_to(limit, state.newest, open, level, at)
  end
  limit.position = position
  return falls - at
end

-- Returns the time until at most `level` units are in use under limit i of a part.
local function wait(part, i, level)
  local limit, state, policy = part.limits[i], part.state, part.in_force
  if limit.kind == IN_FLIGHT then return held_falls_to(state.reservations, level, part.at) - part.at end
  return forecast_wait(state, policy.layout, limit, policy.state_of and policy.state_of[i] or i, level, part.at)
end

-- Returns what the store needs to find the other requests of a reservation, or nil.
local function others_of(open, record)
  return record.flags >= HAS_OTHERS and fetch(open, 'x' .. record.nonce) or nil
end

return {
  new = new_reservations, read_sums = read_sums, encode_sums = encode_sums, changed_fields = changed_reservations,
  list = listed_records, find = find_reservation, insert = insert, take = take, renew = renew, others = others_of,
  shift = shift_reservations, end_until = end_until, charge = charge_state, give_back = give_back, wait = wait,
}
