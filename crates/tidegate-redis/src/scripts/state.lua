-- The state of one subject under one policy, in one Redis key.
--
-- KEYS   not read: the caller passes the key
-- ARGV   not read
-- reply  none: functions that read and write states
--
--   every state            "T", version (1), layout, …
--   counter, fixed, gcra   a string: time of the newest charge (7), expiry of the key (7), and the numbers of each limit
--   log of one limit       a string while it has only a tail; a charge is appended to it; see STRING_LOG in `call.lua`
--   other logs, buckets    a hash: field "h" has flags (1), time of the newest charge (7), expiry of the key (7), the
--                          migration, and each log with its tail; the other fields are the pages of the logs
--   with an override       see `override_record.lua`
--
-- Invariants:
--
--   1. A key that has a state has an expiry, at `expires_at` or later. `expires_at` is at or after the time from which
--      neither the policy's own limits nor those of an override count anything in the state. A charge renews both when
--      less than that is left. It adds a quarter more than needed, so that most charges do not have to renew them.
--   2. `newest` is the time of the newest charge, and goes back only by `rebase`. The string form of a log does not
--      store it, because it is the time of the last record, refunded or not.
--   3. A log is a string only while it has no sealed page, no `shift`, and it drops exactly the entries that are a
--      window or more older than its newest charge. If the clock went far back soon after a change of layout, a longer
--      window may still read the log. Such a log keeps more entries, and is a hash until the next charge.
--   4. A change from a string to a hash, or from a hash to another state, deletes the key first. In a slot that is
--      being moved such a change is refused before anything is written (`ensure_writable`), since the key could not be
--      written again.
--   5. `changed_fields` and `deleted_fields` are disjoint, except for a page that was rewritten and then dropped: fields are
--      set before others are deleted.

local FOREIGN = 'WRONGTYPE the key holds something that Tidegate did not write'
local LOG_META, LOG_META_SIZE = '>i8i8I7I4I4I7', 38

local function new_state(key, layout)
  return { key = key, layout = layout, newest = 0, expires_at = 0, changed_fields = {}, deleted_fields = {}, limits = {} }
end

-- Gives a state the empty limits of its layout.
local function empty_limits(state)
  local layout = state.layout
  local shared
  for i = 1, layout.n do
    local limit = empty_limit(layout.kind, layout.window[i], layout.buckets[i], layout.drain[i])
    if layout.kind == LOG then
      shared = shared or new_log(state, 1, layout.longest)
      shared.longest = layout.longest_index
      limit.log, limit.hint = shared, i
    elseif layout.kind == BUCKETS then
      limit.log, limit.hint = new_log(state, i, layout.buckets[i] + 1), 1
    end
    state.limits[i] = limit
  end
  return state
end

-- Fills an empty log from byte `at` on. Returns the position after it.
local function read_log(log, s, at)
  log.floor, log.shift, log.before, log.first, log.next, log.start = unpack(LOG_META, s, at)
  at = at + LOG_META_SIZE
  local hints
  hints, at = unpack('>B', s, at)
  for i = 1, hints do
    local page, k, before = unpack(HINT, s, at)
    log.hints[i] = { page = page, k = k, before = before }
    at = at + HINT_SIZE
  end
  local base, time_width, unit_width, before, length = unpack(TAIL, s, at)
  at = at + TAIL_SIZE
  local size = time_width + unit_width
  if at + length - 1 > #s or not UNSIGNED[time_width] or not UNSIGNED[unit_width] or length % size > 0 then
    error('DAMAGED the state is cut off', 0)
  end
  log.tail = record_list(slice(s, at, at + length - 1), 1, base, time_width, unit_width, before)
  if SATURATION - log.shift >= TWO53 and log.state.latest - log.shift >= TWO53 then unshift(log) end
  return at + length
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
  parts[#parts + 1] = pack(TAIL, tail.base, tail.time_width, tail.unit_width, tail.before, #tail.s)
  parts[#parts + 1] = tail.s
end

local function decode_plain(state, s, at)
  local layout, k = state.layout, 2
  local numbers = { unpack(layout.number_format, s, at) }
  state.newest, state.expires_at = numbers[1], numbers[2]
  for _, limit in ipairs(state.limits) do
    for _, name in ipairs(layout.numbers) do
      k = k + 1
      limit[name] = numbers[k]
    end
  end
end

local function decode_string_log(state, s)
  local expires_at, base, time_width, unit_width, before = unpack(STRING_LOG, s, 19)
  local size = time_width + unit_width
  if not UNSIGNED[time_width] or not UNSIGNED[unit_width] or (#s - STRING_LOG_HEADER_SIZE) % size > 0 then
    error('DAMAGED the state is cut off', 0)
  end
  local log = state.limits[1].log
  log.tail = record_list(slice(s, FIRST_RECORD), 1, base, time_width, unit_width, before)
  state.expires_at, state.newest = expires_at, time_at(log.tail, log.tail.n)
  log.floor = state.newest - state.layout.longest
end

-- Returns whether a state is a log that can be a string.
local function is_string_log(state)
  local layout = state.layout
  if layout.kind ~= LOG or layout.n > 1 or state.migration then return false end
  local log = state.limits[1].log
  local tail = log.tail
  if log.first < log.next or log.shift ~= 0 or tail.n == 0 or time_at(tail, tail.n) ~= state.newest then return false end
  local horizon = state.newest - layout.longest
  return log.floor == horizon or (log.floor < horizon and time_at(tail, 1) > horizon)
end

local function decode_logs(state, s, at)
  local flags
  flags, state.newest, state.expires_at = unpack('>BI7I7', s, at)
  at = at + 15
  if flags == 1 then
    local changed_at, longest, grids = unpack('>I7I7B', s, at)
    at = at + 15
    state.migration = { changed_at = changed_at, longest = longest }
    -- 255 means that charges are kept apart by their microsecond, as in a log.
    if grids < 255 then
      state.migration.grids = {}
      for i = 1, grids do
        local window, buckets = unpack('>I6I2', s, at)
        state.migration.grids[i] = { window = window, buckets = buckets }
        at = at + 8
      end
    end
    state.log, state.limits = new_log(state, 1, 2 * longest), {}
    read_log(state.log, s, at)
    return
  end
  for i, limit in ipairs(state.limits) do
    if i == 1 or state.layout.kind == BUCKETS then at = read_log(limit.log, s, at) end
  end
end

-- Reads a key. Returns its state or nil, an error or nil, and the override of the key, which may have ended, or nil.
local function read_state(key, expected, now, only_existence)
  local is_hash = expected.kind == BUCKETS or (expected.kind == LOG and expected.n > 1)
  local s
  if is_hash then
    s = try('HGET', key, 'h')
    if type(s) == 'table' then
      is_hash = false
      s = try('GET', key)
    end
  else
    -- For a hash, GET would be an error, which the server counts; MGET returns false.
    s = try('MGET', key)
    if not s.err then s = s[1] end
    if not s then
      is_hash = true
      s = try('HGET', key, 'h')
    end
  end
  if type(s) == 'table' then return nil, s.err end
  if not s then
    -- Tidegate did not write a hash without a header.
    if is_hash and call('EXISTS', key) == 1 then return nil, FOREIGN end
    return nil
  end
  local override
  if is_hash and slice(s, 1, 1) == 'O' then
    override = overrides().read(s)
    s = call('HGET', key, 's')
    if not s then return nil, nil, override end
    is_hash, s = slice(s, 1, 1) == '\1', slice(s, 2)
  end
  if slice(s, 1, 1) ~= 'T' then return nil, FOREIGN end
  local version, kind, n = unpack('>BBB', s .. '\0\0\0', 2)
  if version ~= VERSION then
    return nil, 'NEWERVERSION the key holds a state of format ' .. version .. ', this is format ' .. VERSION
  end
  if only_existence then return true, nil, override end
  local prefix = 4 + 14 * n
  if n < 1 or n > 8 or kind < LOG or kind > GCRA or #s < prefix then return nil, 'DAMAGED the state is cut off' end
  local bytes = slice(s, 3, prefix)
  local layout = bytes == expected.bytes and expected or layout_of(bytes)
  local state = empty_limits(new_state(key, layout))
  state.is_hash, state.was_read, state.latest = is_hash, true, now
  state.override, state.read_with_override = override, override ~= nil
  if is_hash then
    decode_logs(state, s, prefix + 1)
  elseif layout.number_format then
    decode_plain(state, s, prefix + 1)
  elseif kind == LOG and n == 1 and #s > STRING_LOG_HEADER_SIZE then
    decode_string_log(state, s)
  else
    return nil, 'DAMAGED the state is cut off'
  end
  return state, nil, override
end

-- Returns how long from `now` the state must be kept, in microseconds.
local function keep_for(state, now)
  local layout, keep = state.layout, state.layout.keep
  if state.migration then
    keep = 2 * state.migration.longest + 1
  elseif layout.kind == GCRA then
    for i = 1, layout.n do
      local limit = state.limits[i]
      keep = max(keep, div_up(limit.high, limit.low, limit.drain))
    end
  end
  -- When the override ends, the policy's own limits count the same units.
  if state.own_keep then keep = max(keep, state.own_keep) end
  return max(state.newest - now + keep, 0)
end

local function checked(reply)
  if type(reply) == 'table' and reply.err then error(reply.err, 0) end
  return reply
end

-- Returns whether a state is written as a string.
local function is_string(state)
  return (state.layout.number_format and not state.migration) or is_string_log(state)
end

-- Returns whether the key must be deleted before the state is written, because its form changes.
local function is_replaced(state)
  local in_hash = state.is_hash or state.read_with_override
  if state.override then return state.was_read and not in_hash end
  return state.was_read and not is_string(state) and (not in_hash or state.replaces_fields)
end

-- Raises an error, before anything is written, if a state can't be replaced now.
local function ensure_writable(state)
  if is_replaced(state) and is_moving(state.key) then
    error('TRYAGAIN the state changes its form while its slot is being moved', 0)
  end
end

-- Writes a state and its expiry in the same step.
local function save(state, now, grace)
  local key, layout, becomes_string = state.key, state.layout, is_string(state)
  local parts = { layout.prefix }
  local keep = keep_for(state, now)
  local lifetime = keep + floor(keep / 4)
  local changes_form = (becomes_string and state.is_hash) or not (becomes_string or state.is_hash)
  local renew = state.expires_at < now + keep or not state.was_read or state.replaces_fields or changes_form
  if renew then state.expires_at = now + lifetime end
  local expires_at = min(state.expires_at, SATURATION)
  if becomes_string then
    if layout.number_format then
      local numbers = { state.newest, expires_at }
      for _, limit in ipairs(state.limits) do
        for _, name in ipairs(layout.numbers) do numbers[#numbers + 1] = limit[name] end
      end
      parts[2] = pack(layout.number_format, spread(numbers))
    else
      local tail = state.limits[1].log.tail
      parts[2] = pack(STRING_LOG, expires_at, tail.base, tail.time_width, tail.unit_width, tail.before)
      parts[3] = slice(tail.s, tail.from)
    end
    local value = table.concat(parts)
    if state.override then
      state.replaces_fields = state.is_hash
      overrides().save_with_override(state, { { 's', '\0' .. value } }, renew and lifetime, now, grace)
    elseif renew then
      checked(try('SET', key, value, 'PX', math.ceil(lifetime / 1000) + grace))
    else
      checked(try('SET', key, value, 'KEEPTTL'))
    end
    return
  end
  local flags, log = state.migration and 1 or 0, state.log or state.limits[1].log
  if flags == 0 and (log.first < log.next or log.shift ~= 0) then flags = 2 end
  parts[2] = pack('>BI7I7', flags, state.newest, expires_at)
  if state.migration then
    local grids = state.migration.grids
    parts[3] = pack('>I7I7B', state.migration.changed_at, state.migration.longest, grids and #grids or 255)
    for _, grid in ipairs(grids or {}) do parts[#parts + 1] = pack('>I6I2', grid.window, grid.buckets) end
    write_log(parts, state.log)
  end
  for i, limit in ipairs(state.limits) do
    if i == 1 or layout.kind == BUCKETS then write_log(parts, limit.log) end
  end
  local header = table.concat(parts)
  local writes = { state.override and { 's', '\1' .. header } or { 'h', header } }
  for name, value in pairs(state.changed_fields) do
    local last = writes[#writes]
    -- Lua can pass only a limited number of arguments at once.
    if #last > 1000 then
      last = {}
      writes[#writes + 1] = last
    end
    last[#last + 1], last[#last + 2] = name, value
  end
  if state.override then
    overrides().save_with_override(state, writes, renew and lifetime, now, grace)
  else
    if is_replaced(state) then checked(try('DEL', key)) end
    for _, fields in ipairs(writes) do checked(try('HSET', key, spread(fields))) end
    if state.read_with_override then state.deleted_fields[#state.deleted_fields + 1] = 's' end
  end
  if #state.deleted_fields > 0 then call('HDEL', key, spread(state.deleted_fields)) end
  if renew and not state.override then call('PEXPIRE', key, math.ceil(lifetime / 1000) + grace) end
end
