-- Each operation, whatever the state is in.

local PEEK, CHECK, CHARGE_OP, REFUND_OP, RESET, INSPECT, OVERRIDE_OP, LIST_OP = 1, 0, 2, 3, 4, 5, 6, 7
local FAR_BACK = 60000000
local MOST_LISTED = 1000
-- Maximum number of older entries that are counted one by one.
local MOST_COUNTED = 8192

-- Reads what a part meets. Only in memory: nothing is written before every part of a group has been read.
local function weigh(part)
  local state, problem, override = read_state(part.key, part.policy.shape, now)
  if problem then error(problem, 0) end
  part.rule = part.policy
  if override then overrides().ruling.heed(part, state, override) end
  local shape, capacity = part.rule.shape, part.rule.capacity
  if state then
    local behind = state.newest - now
    if behind > FAR_BACK and behind > shape.longest then
      rebase(state, now)
      part.rewritten = true
    end
    part.newest, part.at = state.newest, max(now, state.newest)
    part.tracks = tracks_for(state, shape)
  else
    part.newest, part.at = now, now
    part.fresh = empty_tracks(new_state(part.key, shape))
    part.fresh.override, part.fresh.beside = part.override, override ~= nil
    if override then part.fresh.own_keep = part.policy.shape.keep end
    part.tracks = part.fresh.tracks
  end
  part.state = state
  part.used, part.fits = {}, true
  for i = 1, shape.n do
    local track = part.tracks[i]
    local used = USED[track.kind](track, part.newest, part.at)
    part.used[i] = used
    if used + part.cost > capacity[i] then part.fits = false end
  end
  if part.override then overrides().ruling.weigh(part) end
end

local function charge_part(part)
  local state, shape = part.state or part.fresh, part.rule.shape
  local newest = part.newest
  if state.shape.bytes ~= shape.bytes then
    local own_keep = state.own_keep
    state = rewritten(state, shape, part.tracks, part.at)
    state.own_keep = own_keep
    if not state.moved then newest = part.at end
  end
  part.joined = charge(state, newest, part.at, part.cost)
  part.newest, part.state = part.at, state
  part.tracks = tracks_for(state, shape)
end

local function waits(part, i, used, denied)
  local track, capacity = part.tracks[i], part.rule.capacity[i]
  local lag = part.at - now
  local retry, reset = 0, 0
  if denied and part.cost <= capacity and used + part.cost > capacity then
    retry = min(FALLS[track.kind](track, part.newest, part.at, capacity - part.cost, used) + lag, SATURATION)
  end
  if used > 0 then reset = min(FALLS[track.kind](track, part.newest, part.at, 0, used) + lag, SATURATION) end
  return retry, reset
end

local function answer(out, part, flags, denied)
  if part.joined then flags = flags + 8 end
  if part.override then return overrides().ruling.answer(out, part, flags, denied, waits) end
  out[#out + 1] = pack('>BI7', flags, part.at)
  for i = 1, part.rule.shape.n do
    local retry, reset = waits(part, i, part.used[i], denied)
    out[#out + 1] = pack('>I7I7I7', part.used[i], retry, reset)
  end
end

local function conclude(out, part, op, admitted)
  local charged = not part.exempt and (op == CHARGE_OP or (op == CHECK and admitted and part.fits))
  if charged then
    charge_part(part)
    for i, used in ipairs(part.used) do
      local track = part.tracks[i]
      part.used[i] = min(used + part.cost, SATURATION)
      -- Only a debt may hold less than was charged.
      if track.kind == GCRA then part.used[i] = USED[GCRA](track, part.newest, part.at) end
    end
  end
  part.writes = part.state and (charged or (part.rewritten and op ~= PEEK and not part.exempt))
  answer(out, part, charged and 1 or 0, not charged and not part.fits)
end

local function decide(out, parts, op)
  local admitted = true
  for _, part in ipairs(parts) do
    weigh(part)
    if not part.fits and not part.policy.shadow then admitted = false end
  end
  for _, part in ipairs(parts) do conclude(out, part, op, admitted) end
  -- Nothing is written before everything is known.
  for _, part in ipairs(parts) do
    if part.writes then ensure_writable(part.state) end
  end
  for _, part in ipairs(parts) do
    if part.writes then save(part.state, now, grace) end
  end
end

local function refund_part(out, parts)
  local part = parts[1]
  weigh(part)
  local state, returned = part.state, false
  if state then
    if part.charged_at <= part.newest then
      part.rewritten = redrain(state, part.rule.shape) or part.rewritten
      returned = refund(state, part.at, part.cost, part.charged_at)
      part.tracks = tracks_for(state, part.rule.shape)
      for i, track in ipairs(part.tracks) do part.used[i] = USED[track.kind](track, part.newest, part.at) end
    end
  end
  answer(out, part, returned and 4 or 0, false)
  if returned or part.rewritten then
    ensure_writable(state)
    save(state, now, grace)
  end
end

local function reset_part(out, parts)
  local part = parts[1]
  local state, problem, override = read_state(part.key, part.policy.shape, now, true)
  if problem then error(problem, 0) end
  if override and not overrides().is_over(override, now) then
    overrides().forget_fields(part.key)
    if override.ends > 0 then overrides().live_on(part.key, override, 0, now, grace) end
  elseif state or override then
    checked(try('DEL', part.key))
  end
  out[#out + 1] = pack('>B', state and 2 or 0)
end

-- The units that a track remembers, newest first: first and last instant and units; and how many older ones there are.
local function listed(track, newest, at)
  local found, older = {}, 0
  -- Returns whether this was the last entry that is listed.
  local function add_entry(first, last, units)
    if #found == MOST_LISTED then older = older + 1 else found[#found + 1] = pack('>i8i8I7', first, last, units) end
    return #found == MOST_LISTED
  end
  if track.kind == LOG then
    local add_one = function(time, units) return add_entry(time, time, units) end
    older = each_back(track.log, at - track.w, add_one, MOST_COUNTED)
  elseif track.kind == BUCKETS then
    local number_of = function(time) return track.dated and bucket(track, time) or time end
    local number, sum
    local from = track.dated and horizon_of(track, newest) or -TWO53
    each_back(track.log, from, function(time, units)
      if number_of(time) == number then
        sum = sum + units
      else
        if number then
          add_entry(instant_less(track, number, 0), instant_less(track, number + 1, 0) - 1, sum)
        end
        number, sum = number_of(time), units
      end
    end)
    if number then add_entry(instant_less(track, number, 0), instant_less(track, number + 1, 0) - 1, sum) end
  else
    for _, slot in ipairs(slots(track, newest)) do
      if slot[3] > 0 then add_entry(slot[1], slot[2], slot[3]) end
    end
  end
  return found, older
end

local function inspect_part(out, parts)
  local part = parts[1]
  weigh(part)
  if not part.state then
    out[#out + 1] = pack('>B', 0)
    return
  end
  local flags, blob = 2, ''
  if part.override then flags, blob = overrides().ruling.shown(part, flags) end
  out[#out + 1] = pack('>BI7', flags, part.newest) .. blob
  for i, track in ipairs(part.tracks) do
    local used, next_free = part.used[i], 0
    local _, reset = waits(part, i, used, false)
    if used > 0 then
      local falls = FALLS[track.kind](track, part.newest, part.at, used - 1, used)
      next_free = min(falls + part.at - now, SATURATION)
    end
    local found, older = listed(track, part.newest, part.at)
    out[#out + 1] = pack('>I7I7I7I4I2', used, reset, next_free, older, #found)
    for k = #found, 1, -1 do out[#out + 1] = found[k] end
  end
end

-- Operations on one key; all others are decisions. Those on overrides are made when one is asked for.
local ALONE = { [REFUND_OP] = refund_part, [RESET] = reset_part, [INSPECT] = inspect_part }

-- Decides the group that is at this place among the groups, and its parts at that place among the keys.
return function(op, count, at, place)
  local parts = {}
  for i = 1, count do
    local number, cost, charged_at
    number, cost, charged_at, at = unpack('>I2I7I7', ARGV[2], at)
    local blob = ARGV[2 + number]
    parts[i] = { key = KEYS[place + i - 1], policy = policy_from(blob), blob = blob, cost = cost, charged_at = charged_at }
  end
  if op > INSPECT and not ALONE[op] then
    ALONE[OVERRIDE_OP], ALONE[LIST_OP] = overrides().overriding(), overrides().listing()
  end
  local out = { '\0' }
  local fine, problem = pcall(ALONE[op] or decide, out, parts, op)
  if fine then return table.concat(out) end
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  return pack('>BI2', 2, #text) .. text
end
