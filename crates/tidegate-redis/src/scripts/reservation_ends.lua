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

-- Adds units to the slot that begins at `first`.
local function add_to_slot(slots, of_first, first, last, units)
  local slot = of_first[first]
  if not slot then
    slot = { first = first, last = last, units = 0 }
    of_first[first], slots[#slots + 1] = slot, slot
  end
  slot.units = slot.units + units
  return slot
end

-- Gives the units of released holds back to the state: each page of a log is written once.
local function give_back_all(state, layout, holds)
  local kind, log = state.layout.kind, dated_log(state)
  if log then
    local slots, of_first = {}, {}
    for _, record in ipairs(holds) do
      local first, last = slot_of_charge(state, record.ends, record.granted_at)
      if first then add_to_slot(slots, of_first, first, last, record.units) end
    end
    remove_from_slots(log, slots)
  elseif kind == BUCKETS then
    for _, limit in ipairs(state.limits) do
      local slots, of_first, oldest = {}, {}, bucket(limit, state.newest) - limit.buckets
      for _, record in ipairs(holds) do
        local number = bucket(limit, record.granted_at)
        if number >= oldest then add_to_slot(slots, of_first, number, number, record.units) end
      end
      remove_from_slots(limit.log, slots)
    end
  else
    for _, record in ipairs(holds) do give_back(state, layout, record.units, record.granted_at, record.ends) end
  end
end

-- Ends reservations, given in the order of their ends. Returns the state.
local function end_all(state, layout, records, from, to)
  local k = from
  while k <= to do
    local holds = {}
    while k <= to and not records[k].is_lease do
      local record = records[k]
      if record.is_released and record.granted_at <= state.newest then holds[#holds + 1] = record end
      k = k + 1
    end
    if holds[1] then give_back_all(state, layout, holds) end
    if k <= to then
      state = charge_state(state, layout, records[k].ends, records[k].units)
      k = k + 1
    end
  end
  return state
end

-- Ends all reservations that end by `at`. Returns the state and their number.
local function end_until(state, layout, at)
  local ended = take_ended(state.reservations, at)
  return end_all(state, layout, ended, 1, #ended), #ended
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

-- Returns the entry of a charge in a log: its microsecond or its bucket.
local function entry_of(limit, time)
  if limit.kind == LOG then return time end
  return bucket(limit, time)
end

-- Returns the first time at which an entry no longer counts.
local function expiry_of(limit, entry)
  if limit.kind == LOG then return entry + limit.window end
  return instant_less(limit, entry + limit.buckets + 1, 0)
end

local function units_in(log, first, last)
  return sub(units_after(log, locate(log, first - 1, nil)), units_after(log, locate(log, last, nil)))
end

-- What all holds give back to a log: their ends, their units and the numbers of their slots, in the order of their ends; the
-- slots, the earliest first; and the leases.
local function releases_of(state, limit, log, has_own_layout)
  local open = state.reservations
  local all = all_records(open)
  -- The retry time and the reset time of a limit need the same lists.
  if all.releases and all.limit == limit then return all.releases end
  local releases = { ends = {}, units = {}, slot_of = {}, slots = {}, leases = {} }
  -- Otherwise each entry has all units of its open holds.
  local may_have_fewer = open.is_reduced or not (has_own_layout or state.layout.kind == LOG)
  local n, slots, of_first, slot_of, leased_in = 0, {}, {}, {}, {}
  for k = 1, all.n do
    local flags, ends, units = all.flags[k], all.ends[k], all.units[k]
    if flags % KEEPS == LEASE then
      local own = entry_of(limit, ends)
      releases.leases[#releases.leases + 1] = { from = 0, expires = expiry_of(limit, own), units = units }
      if limit.kind ~= LOG then leased_in[own] = (leased_in[own] or 0) + units end
    elseif flags % HAS_OTHERS == 0 and all.granted_at[k] <= state.newest then
      local first, last
      if has_own_layout then
        first = entry_of(limit, all.granted_at[k])
        last = first
      else
        first, last = slot_of_charge(state, ends, all.granted_at[k])
      end
      if first then
        local slot = add_to_slot(slots, of_first, first, last, 0)
        if may_have_fewer then
          slot.left = slot.left or units_in(log, first, last)
          -- A lease that ended earlier may be in the bucket of a hold, which then gives back its units.
          local of_leases = min(max(units - slot.left, 0), leased_in[first] or 0)
          units = min(units, slot.left)
          slot.left = slot.left - units
          if of_leases > 0 then
            leased_in[first] = leased_in[first] - of_leases
            releases.leases[#releases.leases + 1] = { from = ends, expires = expiry_of(limit, first), units = -of_leases }
          end
        end
        n = n + 1
        releases.ends[n], releases.units[n], slot_of[n] = ends, units, slot
      end
    end
  end
  -- Numbers are sorted much faster than tables.
  local firsts = {}
  for number, slot in ipairs(slots) do firsts[number] = slot.first end
  table.sort(firsts)
  for number, first in ipairs(firsts) do
    releases.slots[number], of_first[first].number = of_first[first], number
  end
  for k = 1, n do releases.slot_of[k] = slot_of[k].number end
  all.releases, all.limit = releases, limit
  return releases
end

-- Returns, for each slot, the units that the holds that end by `time` give back to it and to later ones.
local function given_back_by(releases, time)
  local since, slots = {}, releases.slots
  for number = 1, #slots + 1 do since[number] = 0 end
  for k, ends in ipairs(releases.ends) do
    if ends > time then break end
    local number = releases.slot_of[k]
    since[number] = since[number] + releases.units[k]
  end
  for number = #slots, 1, -1 do since[number] = since[number] + since[number + 1] end
  return since
end

-- Returns the number of the first slot after slot `below` for which a condition holds, if it holds for all slots after that one.
local function first_slot(slots, below, condition)
  local above = #slots + 1
  while above - below > 1 do
    local middle = floor((below + above) / 2)
    if condition(slots[middle], middle) then above = middle else below = middle end
  end
  return above
end

-- Returns the units that are given back to entries after a horizon, after which the log has `units`.
local function given_back_after(log, slots, since, horizon, units)
  horizon = max(horizon, log.floor)
  local number = first_slot(slots, 0, function(slot) return slot.first > horizon end)
  local before = slots[number - 1]
  -- The newest units of a slot are given back first.
  if before and before.last > horizon and since[number - 1] > since[number] then
    local later = units_after(log, locate(log, before.last, nil))
    return since[number] + min(since[number - 1] - since[number], sub(units, later))
  end
  return since[number]
end

-- Returns the first time, `at` or later, at which at most `level` units are in use under limit i of a layout, if all units of
-- the state are in one log, without ending the reservations in a copy of it. Leases need the state's own layout.
local function log_falls_to(state, layout, limit, log, i, level, at)
  local has_own_layout, newest = state.layout.bytes == layout.bytes and not state.migration, state.newest
  local releases = releases_of(state, limit, log, has_own_layout)
  local slots, leases = releases.slots, releases.leases
  local function leased_at(time)
    local sum = 0
    for _, lease in ipairs(leases) do
      if lease.from <= time and lease.expires > time then sum = sum + lease.units end
    end
    return sum
  end
  -- Returns the limit as of a time at which some holds have ended.
  local function limit_at(since)
    log.given_back = function(horizon, units) return given_back_after(log, slots, since, horizon, units) end
    return has_own_layout and limit or limits_for(state, layout)[i]
  end
  local changes = {}
  for k, ends in ipairs(releases.ends) do changes[k] = ends end
  for _, lease in ipairs(leases) do changes[#changes + 1] = lease.expires end
  if #leases > 0 then table.sort(changes) end
  local later, above = 0, #changes + 1
  while above - later > 1 do
    local middle = floor((later + above) / 2)
    local time = changes[middle]
    local changed = limit_at(given_back_by(releases, time))
    if USED[changed.kind](changed, newest, time) + leased_at(time) > level then later = middle else above = middle end
  end
  -- No hold ends and no lease expires from here to `finish`.
  local start, finish = later == 0 and at or changes[later], changes[above] or TWO53
  local since = given_back_by(releases, start)
  local changed, own = limit_at(since), level - leased_at(start)
  local used = USED[changed.kind](changed, newest, start)
  log.given_back = nil
  if used <= own then return start end
  if own < 0 then return finish end
  if not changed.log then return min(finish, start + TIME_UNTIL[changed.kind](changed, newest, start, own, used)) end
  -- The slot in which the horizon lies when few enough units are left. Until then, only units that nobody gives back leave the
  -- window.
  local horizon = max(horizon_of(changed, start), log.floor)
  local counted = first_slot(slots, 0, function(slot) return slot.last > horizon end)
  local number = first_slot(slots, counted - 1, function(slot, k)
    return units_after(log, locate(log, slot.last, nil)) - since[k + 1] <= own
  end)
  return min(finish, start + plain_wait(changed, newest, start, own + since[number]))
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

-- The same for any state: a search that ends the reservations in copies of the whole state. Each copy goes on from the last one
-- in which more units are in use.
local function state_falls_to(state, layout, i, level, at)
  local open = state.reservations
  local is_reduced, records = open.is_reduced, listed_records(open)
  local known, leased, later, above = state, open.leased, 0, #records + 1
  while above - later > 1 do
    local middle = floor((later + above) / 2)
    local copy, still_leased = end_all(copy_of(known, {}), layout, records, later + 1, middle), leased
    for k = later + 1, middle do
      if records[k].is_lease then still_leased = still_leased - records[k].units end
    end
    local limit, time = limits_for(copy, layout)[i], records[middle].ends
    if USED[limit.kind](limit, copy.newest, time) + still_leased > level then
      later, known, leased = middle, copy, still_leased
    else
      above = middle
    end
  end
  open.is_reduced = is_reduced
  local start, finish = later == 0 and at or records[later].ends, records[above] and records[above].ends or TWO53
  if leased > level then return finish end
  return min(finish, start + plain_wait(limits_for(known, layout)[i], known.newest, start, level - leased))
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
      if units_in(limit.log, state.newest, state.newest) > held then return wait end
    end
  end
  local position = limit.position
  local log, falls = has_own_layout and limit.log or nil, nil
  -- A lease that ends changes the layout of the state.
  if not has_own_layout and open.leases == 0 then log = dated_log(state) end
  if log then
    falls = log_falls_to(state, layout, limit, log, i, level, at)
  elseif not has_own_layout then
    falls = state_falls_to(state, layout, i, level, at)
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
  new = new_reservations, from_leases = from_leases, are_few_leases = are_few_leases, encode_leases = encode_leases,
  read_sums = read_sums, encode_sums = encode_sums, changed_fields = changed_reservations,
  list = listed_records, find = find_reservation, insert = insert, take = take, renew = renew, others = others_of,
  shift = shift_reservations, end_until = end_until, charge = charge_state, give_back = give_back, wait = wait,
}
