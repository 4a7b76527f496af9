-- The operations on any state: check, peek, charge, refund, reset, inspect. `overrides()` returns those on overrides.
--
-- KEYS   the keys of the parts of one group
-- ARGV   the parts of one group, and their policies
-- reply  the reply to one group, as in `call.lua`. Replies that differ from those to decisions:
--          reset    2 if a state was deleted, or 0 (1)
--          inspect  0 if the key has no state (1); else 2 plus the flags of an override (1), the time of the newest
--                   charge (7), other limits as a policy, and for each limit: units in use (7), wait until nothing is in
--                   use (7), wait until fewer units are in use (7), number of entries that are not listed (4), number of
--                   listed entries (2), and for each of these: first time (8), last time (8), units (7). Then the number
--                   of open reservations (2), and for each of these: units (7), time of the grant (8), end (7), kind (1):
--                   0 a hold that is released at its end, 1 a hold that is spent, 2 a lease

local CHECK, PEEK, CHARGE_OP = 0, 1, 2
local MAX_LISTED = 1000
local IN_RESERVED_FORM = 2
-- Maximum number of older entries that are counted one by one.
local MAX_COUNTED = 8192

-- Number of reservations of a group that ended by themselves, once that is stored.
local ended_reservations = 0

-- Returns the units in use under a limit of a part.
local function used_under(part, i)
  local limit, open = part.limits[i], part.state and part.state.reservations
  if limit.kind == IN_FLIGHT then return open and open.held or 0 end
  local used = USED[limit.kind](limit, part.newest, part.at)
  return open and used + open.leased or used
end

-- Reads the limits of a part from its state, and finds out whether its cost fits.
local function measure(part)
  local state = part.state
  if state then
    part.newest = state.newest
    part.limits = limits_for(state, part.in_force.layout)
  end
  part.limits = in_policy_order(part.in_force, part.limits)
  local capacity = part.in_force.capacity
  part.used, part.fits = {}, true
  for i = 1, part.in_force.n do
    local used = used_under(part, i)
    part.used[i] = used
    if used + part.cost > capacity[i] then part.fits = false end
  end
end

-- Reads the key of a part, ends the reservations that end by now, and finds out whether the cost fits. Nothing is written
-- before all parts have been read.
local function evaluate(part)
  local state, problem, override = read_state(part.key, part.policy.layout, now)
  if problem then error(problem, 0) end
  part.in_force = part.policy
  if override then overrides().decisions.apply(part, state, override) end
  local layout = part.in_force.layout
  if state then
    local behind = state.newest - now
    if behind > FAR_BACK and behind > layout.longest then
      if state.reservations then reservations().shift(state.reservations, behind) end
      rebase(state, now)
      part.state_changed = true
    end
    local at, open = max(now, state.newest), state.reservations
    if open and open.first_end <= at then
      state, part.ended = reservations().end_until(state, layout, at)
      part.state_changed = true
    end
    part.state, part.at = state, at
  else
    part.newest, part.at = now, now
    part.new_state = empty_limits(new_state(part.key, layout))
    part.new_state.override, part.new_state.stored_override = part.override, override
    part.new_state.form = override and WITH_OVERRIDE or nil
    if override then part.new_state.own_keep = part.policy.layout.keep end
    part.limits = part.new_state.limits
  end
  measure(part)
  if part.override then overrides().decisions.evaluate(part) end
end

-- Charges a part. A lease charges nothing when it is granted, but moves the time of the newest charge.
local function charge_part(part, units)
  local state, layout = part.state or part.new_state, part.in_force.layout
  local newest = part.newest
  if state.layout.bytes ~= layout.bytes then
    local own_keep = state.own_keep
    state = migrated(state, layout, limits_for(state, layout), part.at)
    state.own_keep = own_keep
    if not state.migration then newest = part.at end
    if state.reservations then state.reservations.is_reduced = true end
  end
  part.joined = charge(state, newest, part.at, units)
  if part.joined and state.reservations then state.reservations.is_reduced = true end
  part.newest, part.state = part.at, state
  part.limits = in_policy_order(part.in_force, limits_for(state, layout))
end

-- Returns the time until at most `level` units are in use under a limit of a part. Now `used` units are, which is more.
local function time_until(part, i, level, used)
  local limit, open = part.limits[i], part.state and part.state.reservations
  local wait
  if open and open.count > 0 then
    wait = reservations().wait(part, i, level)
  elseif limit.kind == IN_FLIGHT then
    wait = 0
  else
    wait = TIME_UNTIL[limit.kind](limit, part.newest, part.at, level, used)
  end
  return min(wait + (part.at - now), SATURATION)
end

local function waits(part, i, used, denied)
  local capacity = part.in_force.capacity[i]
  local retry, reset = 0, 0
  if denied and part.cost <= capacity and used + part.cost > capacity then
    retry = time_until(part, i, capacity - part.cost, used)
  end
  if used > 0 then reset = time_until(part, i, 0, used) end
  part.retry, part.reset = retry, reset
  return retry, reset
end

local function add_reply(out, part, flags, denied)
  if part.joined then flags = flags + 8 end
  if part.state and part.state.reservations and form_of(part.state) == WITH_RESERVATIONS then flags = flags + IN_RESERVED_FORM end
  if part.override then return overrides().decisions.add_reply(out, part, flags, denied, waits, used_under) end
  out[#out + 1] = pack('>BI7', flags, part.at)
  for i = 1, part.in_force.n do
    local retry, reset = waits(part, i, part.used[i], denied)
    out[#out + 1] = pack('>I7I7I7', part.used[i], retry, reset)
  end
end

-- Charges a part, and counts its cost as used.
local function spend(part, units)
  charge_part(part, units)
  for i, used in ipairs(part.used) do
    local limit = part.limits[i]
    part.used[i] = min(used + part.cost, SATURATION)
    -- Only a debt may rise by less than the charge.
    if limit.kind == GCRA then
      local leased = part.state.reservations and part.state.reservations.leased or 0
      part.used[i] = USED[GCRA](limit, part.newest, part.at) + leased
    end
  end
end

-- Remembers the waits of a denial with the reservations, if they had to be searched. A fast path then answers the same denial
-- until something changes.
local function remember_waits(part)
  local state, policy = part.state, part.in_force
  local open, layout = state.reservations, policy.layout
  local is_only = policy.n == 1 and layout.n == 1 and not part.override and not state.override
  if not open or open.leases > 0 or not is_only or part.cost > policy.capacity[1] then return end
  if state.migration or state.layout.bytes ~= layout.bytes or open.first_end >= now + max(part.retry, part.reset) then return end
  if max(part.retry, part.reset) > SATURATION / 2 then return end
  local unused_at, level, falls_at = now + part.reset, policy.capacity[1] - part.cost, now + part.retry
  if open.unused_at == unused_at and open.level == level and open.falls_at == falls_at then return end
  open.unused_at, open.level, open.falls_at, open.remembers = unused_at, level, falls_at, true
  -- The denial stands, even if Redis accepts no writes now.
  pcall(save, state, now, grace)
end

local function finish_decision(out, part, op, admitted)
  local charged = not part.exempt and (op == CHARGE_OP or (op == CHECK and admitted and part.fits))
  if charged then spend(part, part.cost) end
  part.writes = part.state and (charged or (part.state_changed and op ~= PEEK and not part.exempt))
  local denied = not charged and not part.fits
  add_reply(out, part, charged and 1 or 0, denied)
  if denied and op == CHECK and part.state and not part.writes then remember_waits(part) end
end

-- Writes the changed states. Nothing is written before every reply is known.
local function write(parts)
  for _, part in ipairs(parts) do
    if part.writes then ensure_writable(part.state) end
  end
  for _, part in ipairs(parts) do
    if part.writes then
      save(part.state, now, grace)
      ended_reservations = ended_reservations + (part.ended or 0)
    end
  end
end

local function decide(out, parts, op)
  local admitted = true
  for _, part in ipairs(parts) do
    evaluate(part)
    if not part.fits and not part.policy.shadow then admitted = false end
  end
  for _, part in ipairs(parts) do finish_decision(out, part, op, admitted) end
  write(parts)
end

local function refund_part(out, parts)
  local part = parts[1]
  evaluate(part)
  local state, changed, in_use = part.state, false, false
  if state and part.charged_at <= part.newest then
    part.state_changed = change_drain(state, part.in_force.layout) or part.state_changed
    changed, in_use = refund(state, part.at, part.cost, part.charged_at)
    if changed and state.reservations then state.reservations.is_reduced = true end
    measure(part)
  end
  add_reply(out, part, changed and in_use and 4 or 0, false)
  part.writes = changed or part.state_changed
  write(parts)
end

local function reset_part(out, parts)
  local part = parts[1]
  local state, problem, override = read_state(part.key, part.policy.layout, now, true)
  if problem then error(problem, 0) end
  if override and not overrides().has_ended(override, now) then
    -- The key may have the form of one with reservations.
    checked(try('HSET', part.key, 'h', override.bytes))
    overrides().delete_state_fields(part.key)
    if override.ends > 0 then overrides().renew_expiry(part.key, override, 0, now, grace) end
  elseif state or override then
    checked(try('DEL', part.key))
  end
  out[#out + 1] = pack('>B', state and 2 or 0)
end

-- Returns the entries of a limit, newest first, and the number of older entries that are not listed.
local function listed_entries(limit, newest, at)
  local found, unlisted = {}, 0
  if limit.kind == IN_FLIGHT then return found, unlisted end
  -- Returns whether this is the last entry of the list.
  local function add_entry(first, last, units)
    if #found == MAX_LISTED then unlisted = unlisted + 1 else found[#found + 1] = pack('>i8i8I7', first, last, units) end
    return #found == MAX_LISTED
  end
  if limit.kind == LOG then
    local add_one = function(time, units) return add_entry(time, time, units) end
    unlisted = visit_newest_first(limit.log, at - limit.window, add_one, MAX_COUNTED)
  else
    for _, slot in ipairs(time_slots(limit, newest)) do
      if slot[3] > 0 then add_entry(slot[1], slot[2], slot[3]) end
    end
  end
  return found, unlisted
end

-- Adds the open reservations of an inspected key to the reply.
local function add_reservations(out, part)
  local open = part.state.reservations
  local all = open and reservations().list(open, MAX_LISTED) or {}
  out[#out + 1] = pack('>I2', #all)
  for _, record in ipairs(all) do
    out[#out + 1] = pack('>I7i8I7B', record.units, record.granted_at, record.ends, record.flags % 4)
  end
end

local function inspect_part(out, parts)
  local part = parts[1]
  evaluate(part)
  if not part.state then
    out[#out + 1] = pack('>B', 0)
    return
  end
  local flags, blob = 2, ''
  if part.override then flags, blob = overrides().decisions.inspected(part, flags) end
  out[#out + 1] = pack('>BI7', flags, part.newest) .. blob
  for i, limit in ipairs(part.limits) do
    local used, next_free = part.used[i], 0
    local _, reset = waits(part, i, used, false)
    if used > 0 then
      next_free = time_until(part, i, used - 1, used)
    end
    local found, unlisted = listed_entries(limit, part.newest, part.at)
    out[#out + 1] = pack('>I7I7I7I4I2', used, reset, next_free, unlisted, #found)
    for k = #found, 1, -1 do out[#out + 1] = found[k] end
  end
  add_reservations(out, part)
end
