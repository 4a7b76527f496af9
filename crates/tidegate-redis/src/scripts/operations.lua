-- The operations on any state: check, peek, charge, refund, reset, inspect. `overrides()` returns those on overrides.
--
-- KEYS   the keys of the parts of one group
-- ARGV   the parts of one group, and their policies
-- reply  the reply to one group, as in `call.lua`. Replies that differ from those to decisions:
--          reset    2 if a state was deleted, or 0 (1)
--          inspect  0 if the key has no state (1); else 2 plus the flags of an override (1), the time of the newest
--                   charge (7), other limits as a policy, and for each limit: units in use (7), wait until nothing is in
--                   use (7), wait until fewer units are in use (7), number of entries that are not listed (4), number of
--                   listed entries (2), and for each of these: first time (8), last time (8), units (7)

local CHECK, PEEK, CHARGE_OP, REFUND_OP, RESET, INSPECT, OVERRIDE_OP, LIST_OP = 0, 1, 2, 3, 4, 5, 6, 7
local MAX_LISTED = 1000
-- Maximum number of older entries that are counted one by one.
local MAX_COUNTED = 8192

-- Reads the key of a part, and finds out whether its cost fits. Nothing is written before all parts have been read.
local function evaluate(part)
  local state, problem, override = read_state(part.key, part.policy.layout, now)
  if problem then error(problem, 0) end
  part.in_force = part.policy
  if override then overrides().decisions.apply(part, state, override) end
  local layout, capacity = part.in_force.layout, part.in_force.capacity
  if state then
    local behind = state.newest - now
    if behind > FAR_BACK and behind > layout.longest then
      rebase(state, now)
      part.state_changed = true
    end
    part.newest, part.at = state.newest, max(now, state.newest)
    part.limits = limits_for(state, layout)
  else
    part.newest, part.at = now, now
    part.new_state = empty_limits(new_state(part.key, layout))
    part.new_state.override, part.new_state.read_with_override = part.override, override ~= nil
    if override then part.new_state.own_keep = part.policy.layout.keep end
    part.limits = part.new_state.limits
  end
  part.state = state
  part.used, part.fits = {}, true
  for i = 1, layout.n do
    local limit = part.limits[i]
    local used = USED[limit.kind](limit, part.newest, part.at)
    part.used[i] = used
    if used + part.cost > capacity[i] then part.fits = false end
  end
  if part.override then overrides().decisions.evaluate(part) end
end

local function charge_part(part)
  local state, layout = part.state or part.new_state, part.in_force.layout
  local newest = part.newest
  if state.layout.bytes ~= layout.bytes then
    local own_keep = state.own_keep
    state = migrated(state, layout, part.limits, part.at)
    state.own_keep = own_keep
    if not state.migration then newest = part.at end
  end
  part.joined = charge(state, newest, part.at, part.cost)
  part.newest, part.state = part.at, state
  part.limits = limits_for(state, layout)
end

local function waits(part, i, used, denied)
  local limit, capacity = part.limits[i], part.in_force.capacity[i]
  local lag = part.at - now
  local retry, reset = 0, 0
  if denied and part.cost <= capacity and used + part.cost > capacity then
    retry = min(TIME_UNTIL[limit.kind](limit, part.newest, part.at, capacity - part.cost, used) + lag, SATURATION)
  end
  if used > 0 then reset = min(TIME_UNTIL[limit.kind](limit, part.newest, part.at, 0, used) + lag, SATURATION) end
  return retry, reset
end

local function add_reply(out, part, flags, denied)
  if part.joined then flags = flags + 8 end
  if part.override then return overrides().decisions.add_reply(out, part, flags, denied, waits) end
  out[#out + 1] = pack('>BI7', flags, part.at)
  for i = 1, part.in_force.layout.n do
    local retry, reset = waits(part, i, part.used[i], denied)
    out[#out + 1] = pack('>I7I7I7', part.used[i], retry, reset)
  end
end

local function finish_decision(out, part, op, admitted)
  local charged = not part.exempt and (op == CHARGE_OP or (op == CHECK and admitted and part.fits))
  if charged then
    charge_part(part)
    for i, used in ipairs(part.used) do
      local limit = part.limits[i]
      part.used[i] = min(used + part.cost, SATURATION)
      -- Only a debt may rise by less than the charge.
      if limit.kind == GCRA then part.used[i] = USED[GCRA](limit, part.newest, part.at) end
    end
  end
  part.writes = part.state and (charged or (part.state_changed and op ~= PEEK and not part.exempt))
  add_reply(out, part, charged and 1 or 0, not charged and not part.fits)
end

local function decide(out, parts, op)
  local admitted = true
  for _, part in ipairs(parts) do
    evaluate(part)
    if not part.fits and not part.policy.shadow then admitted = false end
  end
  for _, part in ipairs(parts) do finish_decision(out, part, op, admitted) end
  -- Nothing is written before every reply is known.
  for _, part in ipairs(parts) do
    if part.writes then ensure_writable(part.state) end
  end
  for _, part in ipairs(parts) do
    if part.writes then save(part.state, now, grace) end
  end
end

local function refund_part(out, parts)
  local part = parts[1]
  evaluate(part)
  local state, changed, in_use = part.state, false, false
  if state and part.charged_at <= part.newest then
    part.state_changed = change_drain(state, part.in_force.layout) or part.state_changed
    changed, in_use = refund(state, part.at, part.cost, part.charged_at)
    part.limits = limits_for(state, part.in_force.layout)
    for i, limit in ipairs(part.limits) do part.used[i] = USED[limit.kind](limit, part.newest, part.at) end
  end
  add_reply(out, part, changed and in_use and 4 or 0, false)
  if changed or part.state_changed then
    ensure_writable(state)
    save(state, now, grace)
  end
end

local function reset_part(out, parts)
  local part = parts[1]
  local state, problem, override = read_state(part.key, part.policy.layout, now, true)
  if problem then error(problem, 0) end
  if override and not overrides().has_ended(override, now) then
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
      local wait = TIME_UNTIL[limit.kind](limit, part.newest, part.at, used - 1, used)
      next_free = min(wait + part.at - now, SATURATION)
    end
    local found, unlisted = listed_entries(limit, part.newest, part.at)
    out[#out + 1] = pack('>I7I7I7I4I2', used, reset, next_free, unlisted, #found)
    for k = #found, 1, -1 do out[#out + 1] = found[k] end
  end
end

-- Operations other than decisions, which have one part. Those on overrides are created when one is requested.
local SINGLE_KEY = { [REFUND_OP] = refund_part, [RESET] = reset_part, [INSPECT] = inspect_part }

-- Executes one group: `at` is where its parts begin in ARGV[2], `position` is the number of its first key.
return function(op, count, at, position)
  local parts = {}
  for i = 1, count do
    local number, cost, charged_at
    number, cost, charged_at, at = unpack('>I2I7I7', ARGV[2], at)
    local blob = ARGV[2 + number]
    parts[i] = { key = KEYS[position + i - 1], policy = policy_from(blob), blob = blob, cost = cost, charged_at = charged_at }
  end
  if op > INSPECT and not SINGLE_KEY[op] then
    SINGLE_KEY[OVERRIDE_OP], SINGLE_KEY[LIST_OP] = overrides().operations(), overrides().list()
  end
  local out = { '\0' }
  local ok, problem = pcall(SINGLE_KEY[op] or decide, out, parts, op)
  if ok then return table.concat(out) end
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  return pack('>BI2', 2, #text) .. text
end
