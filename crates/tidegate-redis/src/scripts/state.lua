-- A state: all that is known of one subject under one policy, in one Redis key.
--
--   "T", version, shape, …
--   counter, fixed, gcra: a string; the newest charge's time, until when the key lives, and the numbers of each limit
--   a log of one limit that is a tail only: a string, to which a charge is appended; `request.lua` tells the layout
--   other logs, buckets: a hash; field "h" holds flags, the newest charge's time, until when the key lives, what is known of a
--     change of shape, and each log with its tail; the other fields are the logs' pages
--   beside an override: `override.lua` tells how
--
-- Invariants:
--
--   1. A key that holds a state has an expiry, at `until_` or later. `until_` is at or after the time from which
--      neither the policy's own limits nor those of an override count anything in the state. A charge renews both when
--      less than that is left. It adds a quarter more than needed, so that most charges do not have to renew them.
--   2. `newest` is the time of the newest charge, and goes back only by `rebase`. The string form of a log does not
--      store it, because it is the time of the last record, refunded or not.
--   3. A log is a string only while it has no sealed page, no `shift`, and it forgets exactly the entries that are a
--      window or more older than its newest charge. If the clock went far back soon after a change of shape, a longer
--      window may still read the log. Such a log keeps more entries, and is a hash until the next charge.
--   4. A change from a string to a hash, or from a hash to another state, deletes the key first. In a slot that is
--      being moved such a change is refused before anything is written (`ensure_writable`), since the key could not be
--      written again.
--   5. `pending` and `gone` are disjoint, except for a page that was rewritten and then dropped: fields are set before
--      others are removed.

local FOREIGN = 'WRONGTYPE the key holds something that Tidegate did not write'
local LOG_META, LOG_META_SIZE = '>i8i8I7I4I4I7', 38
local HINT, HINT_SIZE = '>I4I2I7', 13

local function new_state(key, shape)
  local state = { key = key, shape = shape, newest = 0, until_ = 0, pending = {}, gone = {}, tracks = {} }
  return state
end

-- Gives a state the empty tracks of its shape.
local function empty_tracks(state)
  local shape = state.shape
  local shared
  for i = 1, shape.n do
    local track = empty_track(shape.kind, shape.w[i], shape.nb[i], shape.drain[i])
    if shape.kind == LOG then
      shared = shared or new_log(state, 1, shape.longest)
      shared.longest = shape.longest_at
      track.log, track.hint = shared, i
    elseif shape.kind == BUCKETS then
      track.log, track.hint = new_log(state, i, shape.nb[i] + 1), 1
    end
    state.tracks[i] = track
  end
  return state
end

local function read_log(state, s, at, track, span)
  local log = new_log(state, track, span)
  log.floor, log.shift, log.before, log.first, log.next, log.start = unpack(LOG_META, s, at)
  at = at + LOG_META_SIZE
  local hints
  hints, at = unpack('>B', s, at)
  for i = 1, hints do
    local page, k, before = unpack(HINT, s, at)
    log.hints[i] = { page = page, k = k, before = before }
    at = at + HINT_SIZE
  end
  local base, time_width, unit_width, before, length = unpack('>i8BBI7I2', s, at)
  at = at + RUN_SIZE + 2
  if at + length - 1 > #s or not UNSIGNED[time_width] or not UNSIGNED[unit_width] or length % (time_width + unit_width) > 0 then
    error('DAMAGED the state is cut off', 0)
  end
  log.tail = run(slice(s, at, at + length - 1), 1, base, time_width, unit_width, before)
  if SATURATION - log.shift >= TWO53 and state.latest - log.shift >= TWO53 then unshift(log) end
  return log, at + length
end

local function write_log(parts, log)
  parts[#parts + 1] = pack(LOG_META, log.floor, log.shift, log.before, log.first, log.next, log.start)
  local hints = #log.hints
  parts[#parts + 1] = pack('>B', hints)
  for i = 1, hints do
    local hint = log.hints[i]
    parts[#parts + 1] = pack(HINT, hint.page, hint.k, hint.before)
  end
  local tail = log.tail
  parts[#parts + 1] = pack('>i8BBI7I2', tail.base, tail.time_width, tail.unit_width, tail.before, #tail.s)
  parts[#parts + 1] = tail.s
end

local function decode_plain(state, s, at)
  local shape = state.shape
  local numbers = { unpack(shape.plain, s, at) }
  state.newest, state.until_ = numbers[1], numbers[2]
  for i = 1, shape.n do
    local track = empty_track(shape.kind, shape.w[i], shape.nb[i], shape.drain[i])
    if shape.kind == COUNTER then
      track.current, track.previous = numbers[2 * i + 1], numbers[2 * i + 2]
    elseif shape.kind == FIXED then
      track.current = numbers[i + 2]
    else
      track.high, track.low = numbers[2 * i + 1], numbers[2 * i + 2]
    end
    state.tracks[i] = track
  end
end

local function decode_short_log(state, s)
  local until_, base, time_width, unit_width, before = unpack(SHORT, s, 19)
  if not UNSIGNED[time_width] or not UNSIGNED[unit_width] or (#s - SHORT_SIZE) % (time_width + unit_width) > 0 then
    error('DAMAGED the state is cut off', 0)
  end
  local shape = state.shape
  local log, track = new_log(state, 1, shape.longest), empty_track(LOG, shape.w[1], shape.nb[1], shape.drain[1])
  log.tail, log.longest = run(slice(s, FIRST), 1, base, time_width, unit_width, before), 1
  state.until_, state.newest = until_, time_at(log.tail, log.tail.n)
  log.floor = state.newest - shape.longest
  track.log, track.hint = log, 1
  state.tracks[1] = track
end

-- Whether a state is a log that can be a string.
local function is_short_log(state)
  local shape = state.shape
  if shape.kind ~= LOG or shape.n > 1 or state.moved then return false end
  local log = state.tracks[1].log
  local tail = log.tail
  if log.first < log.next or log.shift ~= 0 or tail.n == 0 or time_at(tail, tail.n) ~= state.newest then return false end
  local horizon = state.newest - shape.longest
  return log.floor == horizon or (log.floor < horizon and time_at(tail, 1) > horizon)
end

local function decode_logs(state, s, at)
  local shape = state.shape
  local moved
  moved, state.newest, state.until_ = unpack('>BI7I7', s, at)
  if moved > 1 then moved = 0 end
  at = at + 15
  local logs, span = 1, shape.longest
  if moved == 1 then
    local changed_at, longest, grids = unpack('>I7I7B', s, at)
    at = at + 15
    state.moved = { changed_at = changed_at, longest = longest }
    -- 255 says that charges are told apart by their microsecond, as by a log.
    if grids < 255 then
      state.moved.grids = {}
      for i = 1, grids do
        local w, nb = unpack('>I6I2', s, at)
        state.moved.grids[i] = { w = w, nb = nb }
        at = at + 8
      end
    end
    span = 2 * longest
  elseif shape.kind == BUCKETS then
    logs = shape.n
  end
  for i = 1, logs do
    if logs > 1 or (shape.kind == BUCKETS and moved == 0) then span = shape.nb[i] + 1 end
    local log
    log, at = read_log(state, s, at, i, span)
    if moved == 1 then state.log = log end
    if moved == 0 and shape.kind == LOG then log.longest = shape.longest_at end
    for j = 1, shape.n do
      if moved == 0 and (shape.kind == LOG or j == i) then
        local track = empty_track(shape.kind, shape.w[j], shape.nb[j], shape.drain[j])
        track.log, track.hint = log, shape.kind == LOG and j or 1
        state.tracks[j] = track
      end
    end
  end
end

-- Reads a key; nil if there is none, or an error by name. Third, the override that the key holds, over or not.
local function read_state(key, expected, now, bare)
  local is_hash = expected.kind == BUCKETS or (expected.kind == LOG and expected.n > 1)
  local s
  if is_hash then
    s = try('HGET', key, 'h')
    if type(s) == 'table' then
      is_hash = false
      s = try('GET', key)
    end
  else
    -- Unlike GET it passes over a hash without an error, which a server counts.
    s = try('MGET', key)
    if not s.err then s = s[1] end
    if not s then
      is_hash = true
      s = try('HGET', key, 'h')
    end
  end
  if type(s) == 'table' then return nil, s.err end
  if not s then
    -- A hash without a header is somebody else's.
    if is_hash and call('EXISTS', key) == 1 then return nil, FOREIGN end
    return nil
  end
  local override
  if is_hash and slice(s, 1, 1) == 'O' then
    override = overrides().from(s)
    s = call('HGET', key, 's')
    if not s then return nil, nil, override end
    is_hash, s = slice(s, 1, 1) == '\1', slice(s, 2)
  end
  if slice(s, 1, 1) ~= 'T' then return nil, FOREIGN end
  local version, kind, n = unpack('>BBB', s .. '\0\0\0', 2)
  if version ~= VERSION then
    return nil, 'NEWERVERSION the key holds a state of format ' .. version .. ', this is format ' .. VERSION
  end
  if bare then return true, nil, override end
  local prefix = 4 + 14 * n
  if n < 1 or n > 8 or kind < LOG or kind > GCRA or #s < prefix then return nil, 'DAMAGED the state is cut off' end
  local bytes = slice(s, 3, prefix)
  local shape = bytes == expected.bytes and expected or shape_of(bytes)
  local state = new_state(key, shape)
  state.is_hash, state.was_read, state.latest = is_hash, true, now
  state.override, state.beside = override, override ~= nil
  if is_hash then
    decode_logs(state, s, prefix + 1)
  elseif shape.plain then
    decode_plain(state, s, prefix + 1)
  elseif kind == LOG and n == 1 and #s > SHORT_SIZE then
    decode_short_log(state, s)
  else
    return nil, 'DAMAGED the state is cut off'
  end
  return state, nil, override
end

-- How long from `now` the state has to be kept, in microseconds.
local function keep_for(state, now)
  local shape, keep = state.shape, state.shape.keep
  if state.moved then
    keep = 2 * state.moved.longest + 1
  elseif shape.kind == GCRA then
    for i = 1, shape.n do
      local track = state.tracks[i]
      keep = max(keep, div_up(track.high, track.low, track.drain))
    end
  end
  -- Beside an override, or after it: the policy's own limits will count it, too.
  if state.own_keep then keep = max(keep, state.own_keep) end
  return max(state.newest - now + keep, 0)
end

local function checked(reply)
  if type(reply) == 'table' and reply.err then error(reply.err, 0) end
  return reply
end

-- Whether a state is deleted before it is written, because it becomes a hash or another one.
local function is_replaced(state)
  local in_hash = state.is_hash or state.beside
  if state.override then return state.was_read and not in_hash end
  local is_string = (state.shape.plain and not state.moved) or is_short_log(state)
  return state.was_read and not is_string and (not in_hash or state.wipe)
end

-- Fails, before anything is written, where a state can't be replaced now.
local function ensure_writable(state)
  if is_replaced(state) and is_moving(state.key) then
    error('TRYAGAIN the state changes its form while its slot is being moved', 0)
  end
end

-- Writes a state that is a string, whatever it has been. The key lives for so many microseconds, or as long as it did.
local function save_string(state, parts, lives, now, grace)
  local key, value = state.key, table.concat(parts)
  if state.override then
    state.wipe = state.is_hash
    overrides().save_beside(state, { { 's', '\0' .. value } }, lives, now, grace)
  elseif lives then
    checked(try('SET', key, value, 'PX', math.ceil(lives / 1000) + grace))
  else
    checked(try('SET', key, value, 'KEEPTTL'))
  end
end

-- Writes a state, with its expiry in the same step.
local function save(state, now, grace)
  local key, shape = state.key, state.shape
  local parts = { shape.prefix }
  local keep = keep_for(state, now)
  local renew = state.until_ < now + keep or not state.was_read or state.wipe
  local lives = keep + floor(keep / 4)
  if shape.plain and not state.moved then
    renew = renew or state.is_hash
    local numbers = { state.newest, min(renew and now + lives or state.until_, SATURATION) }
    for i = 1, shape.n do
      local track = state.tracks[i]
      if shape.kind == COUNTER then
        numbers[2 * i + 1], numbers[2 * i + 2] = track.current, track.previous
      elseif shape.kind == FIXED then
        numbers[i + 2] = track.current
      else
        numbers[2 * i + 1], numbers[2 * i + 2] = track.high, track.low
      end
    end
    parts[2] = pack(shape.plain, spread(numbers))
    save_string(state, parts, renew and lives, now, grace)
    return
  end
  if is_short_log(state) then
    local tail = state.tracks[1].log.tail
    renew = renew or state.is_hash
    if renew then state.until_ = now + lives end
    parts[2] = pack(SHORT, min(state.until_, SATURATION), tail.base, tail.time_width, tail.unit_width, tail.before)
    parts[3] = slice(tail.s, tail.from)
    save_string(state, parts, renew and lives, now, grace)
    return
  end
  renew = renew or not state.is_hash
  if renew then state.until_ = now + lives end
  local flags, log = state.moved and 1 or 0, state.log or state.tracks[1].log
  if flags == 0 and (log.first < log.next or log.shift ~= 0) then flags = 2 end
  parts[2] = pack('>BI7I7', flags, state.newest, min(state.until_, SATURATION))
  if state.moved then
    local grids = state.moved.grids
    parts[3] = pack('>I7I7B', state.moved.changed_at, state.moved.longest, grids and #grids or 255)
    for _, grid in ipairs(grids or {}) do parts[#parts + 1] = pack('>I6I2', grid.w, grid.nb) end
    write_log(parts, state.log)
  elseif shape.kind == LOG then
    write_log(parts, state.tracks[1].log)
  else
    for i = 1, shape.n do write_log(parts, state.tracks[i].log) end
  end
  local header = table.concat(parts)
  local writes = { state.override and { 's', '\1' .. header } or { 'h', header } }
  for name, value in pairs(state.pending) do
    local last = writes[#writes]
    -- So many that they can be passed at once.
    if #last > 1000 then
      last = {}
      writes[#writes + 1] = last
    end
    last[#last + 1], last[#last + 2] = name, value
  end
  if state.override then
    overrides().save_beside(state, writes, renew and lives, now, grace)
  else
    if is_replaced(state) then checked(try('DEL', key)) end
    for _, fields in ipairs(writes) do checked(try('HSET', key, spread(fields))) end
    if state.beside then state.gone[#state.gone + 1] = 's' end
  end
  if #state.gone > 0 then call('HDEL', key, spread(state.gone)) end
  if renew and not state.override then call('PEXPIRE', key, math.ceil(lives / 1000) + grace) end
end
