-- A changed limit with the history kept: the library's `reshape`, one for one. Between log, counter, buckets and fixed window
-- the state becomes a log of exact dates (`moved`) that every shape can read, until the longest window of both shapes has
-- passed since the last change. To, from and between gcra, what is in use becomes one charge when something is charged.

-- The first instant of which a track would still hold the units.
local function remembered_since(track, newest)
  if track.kind == COUNTER then return window_start(track.w, newest) - track.w end
  if track.kind == BUCKETS then return instant_less(track, bucket(track, newest) - track.nb, 0) end
  return window_start(track.w, newest)
end

-- The slots of a track, newest first: their first and last instants and their units.
local function slots(track, newest)
  local start, w = window_start(track.w, newest), track.w
  if track.kind == FIXED then return { { start, start + w - 1, track.current } } end
  if track.kind == COUNTER then
    return { { start, start + w - 1, track.current }, { start - w, start - 1, track.previous } }
  end
  local found = {}
  if track.kind == BUCKETS then
    each_back(track.log, -TWO53, function(number, units)
      found[#found + 1] = { instant_less(track, number, 0), instant_less(track, number + 1, 0) - 1, units }
    end)
  end
  return found
end

-- All units of a state with their dates, as one log for all limits. It is the state's own log if it has one; else it is
-- apart until it is adopted.
local function history(state)
  if state.moved then return state.log end
  if state.shape.kind == LOG then return state.tracks[1].log end
  local newest = state.newest
  local limits = {}
  for i, track in ipairs(state.tracks) do limits[i] = track end
  table.sort(limits, function(a, b) return a.w < b.w end)
  local dated, told_since = {}, TWO53
  for _, track in ipairs(limits) do
    -- The newest of these units are those whose dates a shorter window has told already.
    local told = 0
    for _, entry in ipairs(dated) do told = told + entry[2] end
    for _, slot in ipairs(slots(track, newest)) do
      local first, last, units = slot[1], slot[2], slot[3]
      local more = max(units - told, 0)
      told = told - (units - more)
      if more > 0 then
        dated[#dated + 1] = { min(last, newest, max(first, told_since - 1)), more }
      end
    end
    told_since = min(told_since, remembered_since(track, newest))
  end
  table.sort(dated, function(a, b) return a[1] < b[1] end)
  local apart = { key = state.key, pending = {}, gone = {} }
  local log = new_log(apart, 1, 2 * state.shape.longest)
  for _, entry in ipairs(dated) do append(log, entry[1], entry[2], false) end
  return log
end

-- Makes a log, and the fields it has to write, the state's own.
local function adopt(state, log)
  if log.state ~= state then
    state.pending, state.gone, state.wipe = log.state.pending, log.state.gone, true
    log.state = state
  end
end

local function units_since(log, first)
  return units_after(log, locate(log, first - 1, nil))
end

-- The tracks of `shape` that a log of exact dates amounts to.
local function fold(log, shape, newest)
  local tracks = {}
  for i = 1, shape.n do
    local track = empty_track(shape.kind, shape.w[i], shape.nb[i], shape.drain[i])
    local start = window_start(track.w, newest)
    if shape.kind == LOG then
      track.log = log
    elseif shape.kind == BUCKETS then
      track.log, track.dated = log, true
    else
      track.current = units_since(log, start)
      track.previous = units_since(log, start - track.w) - track.current
    end
    tracks[i] = track
  end
  return tracks
end

-- Ends the time in which another shape's state could be wanted back.
local function settle(state)
  if not state.moved then return end
  local shape, log, newest = state.shape, state.log, state.newest
  local tracks = fold(log, shape, newest)
  state.moved, state.log = nil, nil
  if shape.kind == LOG then
    log.hints, log.longest, log.span = {}, shape.longest_at, shape.longest
    for i, track in ipairs(tracks) do
      log.hints[i], track.hint = locate(log, -TWO53, nil), i
    end
  elseif shape.kind == BUCKETS then
    local apart = { key = state.key, pending = {}, gone = {} }
    for i, track in ipairs(tracks) do
      local numbered = new_log(apart, i, track.nb + 1)
      local last = bucket(track, newest)
      local before = units_before(log, locate(log, instant_less(track, last - track.nb, 0) - 1, nil))
      for number = last - track.nb, last do
        local after = units_before(log, locate(log, instant_less(track, number + 1, 0) - 1, nil))
        if after ~= before then append(numbered, number, sub(after, before), false) end
        before = after
      end
      track.log, track.dated, track.hint = numbered, nil, 1
    end
    state.pending, state.gone, state.wipe = apart.pending, {}, true
    for _, track in ipairs(tracks) do track.log.state = state end
  end
  state.tracks = tracks
end

-- Puts what was in use at the newest charge to `now`, long before it: the clock that wrote it is not to be believed.
local function rebase(state, now)
  settle(state)
  local newest, apart = state.newest, nil
  for i, track in ipairs(state.tracks) do
    if track.kind == COUNTER then
      track.current, track.previous = min(USED[COUNTER](track, newest, newest), SATURATION), 0
    elseif track.kind == BUCKETS then
      local used = USED[BUCKETS](track, newest, newest)
      apart = apart or { key = state.key, pending = {}, gone = {} }
      track.log = new_log(apart, i, track.nb + 1)
      track.log.hints[1] = { page = 0, k = 0, before = 0 }
      if used > 0 then append(track.log, bucket(track, now), used, false) end
    elseif track.kind == LOG and i == 1 then
      move(track.log, now - newest)
    end
  end
  if apart then
    state.pending, state.gone, state.wipe = apart.pending, {}, true
    for _, track in ipairs(state.tracks) do track.log.state = state end
  end
  state.newest = now
end

-- The same debt in time, drained at another rate; rounded up.
local function redrained(track, drain)
  local micros, rest = div(track.high, track.low, track.drain)
  local high, low = mul(micros, drain)
  low = low + mul_div_up(rest, drain, track.drain)
  local carry = floor(low / TWO48)
  local other = empty_track(GCRA, track.w, track.nb, drain)
  other.high, other.low = high + carry, low - carry * TWO48
  return other
end

-- The tracks that the limits of `shape` take their state from, where gcra is on one side: those of their window, or else
-- the next ones that nobody's window claims.
local function under_other_capacities(state, shape)
  local own = state.moved and fold(state.log, state.shape, state.newest) or state.tracks
  local of_window, claimed = {}, {}
  for i = 1, shape.n do
    for j, track in ipairs(own) do
      if track.w == shape.w[i] then of_window[i], claimed[j] = track, true end
    end
  end
  local tracks, next_free = {}, 1
  for i = 1, shape.n do
    local track = of_window[i]
    if not track then
      while next_free <= #own and claimed[next_free] do next_free = next_free + 1 end
      track, next_free = own[next_free], next_free + 1
    end
    if not track then
      track = empty_track(shape.kind, shape.w[i], shape.nb[i], shape.drain[i])
      if shape.kind == LOG or shape.kind == BUCKETS then track.log = new_log({ key = state.key }, i, 1) end
    elseif track.kind == GCRA and shape.kind == GCRA and track.w == shape.w[i] then
      track = redrained(track, shape.drain[i])
    end
    tracks[i] = track
  end
  return tracks
end

-- The tracks that a policy of `shape` reads a state by.
local function tracks_for(state, shape)
  local from = state.shape
  local same = from.bytes == shape.bytes
  if same and not state.moved then return state.tracks end
  if from.kind == GCRA or shape.kind == GCRA then return under_other_capacities(state, shape) end
  return fold(history(state), shape, state.newest)
end

-- What is in use at `at`, as one charge at that time.
local function as_one_charge(state, shape, tracks, at)
  local newest = state.newest
  local charged = empty_tracks(new_state(state.key, shape))
  charged.newest, charged.is_hash, charged.was_read, charged.wipe = at, state.is_hash, state.was_read, true
  charged.override, charged.beside = state.override, state.beside
  local most = 0
  for i, track in ipairs(tracks) do
    local used = USED[track.kind](track, newest, at)
    most = max(most, used)
    local to = charged.tracks[i]
    if track.kind == GCRA and shape.kind == GCRA and track.w == to.w and track.drain == to.drain then
      to.high, to.low = debt_at(track, newest, at)
    elseif shape.kind ~= LOG and used > 0 then
      CHARGE[shape.kind](to, at, at, used)
    end
  end
  if shape.kind == LOG and most > 0 then append(charged.tracks[1].log, at, most, false) end
  return charged
end

-- The state to charge under a policy of another shape.
local function rewritten(state, shape, tracks, at)
  local from = state.shape
  if from.kind == GCRA or shape.kind == GCRA then return as_one_charge(state, shape, tracks, at) end
  local moved, log = state.moved, history(state)
  local exact = (moved and not moved.grids) or from.kind == LOG or shape.kind == LOG
  local grids
  if not exact then
    grids = {}
    for _, of in ipairs({ from, shape }) do
      for i = 1, of.n do grids[#grids + 1] = { w = of.w[i], nb = of.nb[i] } end
    end
  end
  adopt(state, log)
  if not moved then log.hints, log.longest = { log.hints[log.longest or 1] }, nil end
  local longest = max(moved and moved.longest or from.longest, shape.longest)
  state.moved = { changed_at = at, longest = longest, grids = grids }
  state.log, state.shape, state.tracks = log, shape, {}
  log.span = 2 * longest
  return state
end

-- Charges a state of the policy's shape; whether a log had to join it with the charge before.
local function charge(state, newest, at, units)
  local moved = state.moved
  if moved and at - moved.changed_at <= moved.longest then
    local log, join = state.log, moved.grids ~= nil
    for _, grid in ipairs(moved.grids or {}) do
      if bucket(grid, newest) ~= bucket(grid, at) then join = false end
    end
    local tail = log.tail
    join = join and tail.n > 0 and time_at(tail, tail.n) + log.shift == newest
    state.newest = at
    return charge_log(log, at - 2 * moved.longest, at, units, join)
  end
  settle(state)
  state.newest = at
  local joined = false
  for i, track in ipairs(state.tracks) do
    if track.log then
      track.log.hints[track.hint] = track.place or locate(track.log, horizon_of(track, at), nil)
    end
    if track.kind == LOG then
      if i == #state.tracks then joined = charge_log(track.log, at - state.shape.longest, at, units, false) end
    elseif CHARGE[track.kind](track, newest, at, units) then
      joined = true
    end
  end
  return joined
end

-- Gives units back in the shape that holds them; whether there were any.
local function refund(state, at, units, charged_at)
  local newest, shape = state.newest, state.shape
  if not state.moved then
    if shape.kind == LOG then
      return charged_at > at - shape.longest and take_back(state.tracks[1].log, charged_at, units) > 0
    end
    local any = false
    for _, track in ipairs(state.tracks) do
      if REFUND[shape.kind](track, newest, at, units, charged_at) then any = true end
    end
    return any
  end
  local finest, longest
  for i = 1, shape.n do
    local track = empty_track(shape.kind, shape.w[i], shape.nb[i], 0)
    if not finest or floor(track.w / track.nb) < floor(finest.w / finest.nb) then finest = track end
    if not longest or track.w > longest.w then longest = track end
  end
  local first, last, since = charged_at, charged_at, at - longest.w + 1
  if shape.kind ~= LOG then
    local held = bucket(finest, charged_at)
    first, last = instant_less(finest, held, 0), instant_less(finest, held + 1, 0) - 1
    since = remembered_since(longest, at)
  end
  if last < since then return false end
  local left = units
  while left > 0 do
    local time
    each_back(state.log, first - 1, function(date)
      if date <= last then
        time = date
        return true
      end
    end)
    if not time then break end
    left = left - take_back(state.log, time, left)
  end
  return left < units
end

-- Lets a debt drain at another rate, if that is all that has changed of a policy; whether it is.
local function redrain(state, shape)
  local from = state.shape
  if from.bytes == shape.bytes or from.kind ~= GCRA or shape.kind ~= GCRA or from.n ~= shape.n then return false end
  for i = 1, from.n do
    if from.w[i] ~= shape.w[i] then return false end
  end
  for i, track in ipairs(state.tracks) do state.tracks[i] = redrained(track, shape.drain[i]) end
  state.shape = shape
  return true
end
