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
--   with reservations      see `leases.lua` and `reservation_records.lua`
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

-- Where the state begins behind the sums of reservations, and for how long a key keeps this form after its newest hold.
local AT_STATE, RESERVED_FOR = 100, 60000000

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
  local form, override, open = is_hash and HASH or STRING, nil, nil
  if is_hash and slice(s, 1, 1) == 'O' then
    override, form = overrides().read(s), WITH_OVERRIDE
    s = call('HGET', key, 's')
    if not s then return nil, nil, override end
    is_hash, s = slice(s, 1, 1) == '\1', slice(s, 2)
  elseif is_hash and slice(s, 1, 2) == 'T\2' and #s > AT_STATE then
    local has_override
    open, has_override = reservations().read_sums(key, s)
    form = WITH_RESERVATIONS
    if has_override then override = overrides().read(call('HGET', key, 'o')) end
    is_hash, s = slice(s, AT_STATE, AT_STATE) == '\1', slice(s, AT_STATE + 1)
  elseif slice(s, 1, 2) == 'T\3' then
    open, s = reservations().from_leases(key, s)
  end
  if slice(s, 1, 1) ~= 'T' then return nil, FOREIGN end
  local version, kind, n = unpack('>BBB', s .. '\0\0\0', 2)
  if version ~= VERSION then
    return nil, 'NEWERVERSION the key holds a state of format ' .. version .. ', this is format ' .. VERSION
  end
  if only_existence then return true, nil, override end
  local prefix = 4 + 14 * n
  if n > 8 or kind < LOG or kind > GCRA or #s < prefix then return nil, 'DAMAGED the state is cut off' end
  local bytes = slice(s, 3, prefix)
  local layout = bytes == expected.bytes and expected or layout_of(bytes)
  local state = empty_limits(new_state(key, layout))
  state.is_hash, state.was_read, state.latest = is_hash, true, now
  if open and open.knows_released then open.layout = layout end
  state.override, state.form, state.reservations, state.stored_override = override, form, open, override
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
  local open = state.reservations
  if open and open.count > 0 then
    -- A lease is charged at its end, and a counter counts units for up to two windows.
    keep = keep + 2 * layout.longest + 1 + max(open.last_end - state.newest, 0)
    if layout.kind == GCRA and open.leased > 0 then
      for i = 1, layout.n do keep = keep + mul_div_up(open.leased, layout.window[i], layout.drain[i]) end
    end
    keep = min(keep, SATURATION)
  end
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

-- Returns whether a few leases are written in front of a state. A key that has another form because of its reservations keeps
-- that form.
local function has_leases_in_front(state)
  local open = state.reservations
  return open and state.form ~= WITH_RESERVATIONS and not state.override and reservations().are_few_leases(open)
end

-- Returns the form in which a state is written.
local function form_of(state)
  local open = state.reservations
  local is_reserved = open and not has_leases_in_front(state)
    and (open.count > 0 or state.newest - open.newest_hold < RESERVED_FOR)
  -- With an override, the key keeps its reservations' form.
  if is_reserved or (state.override and state.form == WITH_RESERVATIONS) then return WITH_RESERVATIONS end
  if state.override then return WITH_OVERRIDE end
  return is_string(state) and STRING or HASH
end

-- Returns whether the key must be deleted before the state is written, because its form changes.
local function is_replaced(state)
  local form = form_of(state)
  if form == STRING or not state.form then return false end
  return state.form == STRING or (form == HASH and state.replaces_fields)
end

-- Deletes the pages of the logs. The key remains, so it can be written even while its slot is being moved.
local function delete_log_fields(key)
  local names = {}
  for _, name in ipairs(call('HKEYS', key)) do
    local kind = slice(name, 1, 1)
    if #name == 6 and (kind == 'p' or kind == 'n' or kind == 't') then names[#names + 1] = name end
  end
  for i = 1, #names, 1000 do call('HDEL', key, spread(names, i, min(i + 999, #names))) end
end

-- Raises an error, before anything is written, if a state can't be replaced now.
local function ensure_writable(state)
  if is_replaced(state) and is_moving(state.key) then
    error('TRYAGAIN the state changes its form while its slot is being moved', 0)
  end
end

-- Writes a state that is part of a hash, with `writes`: lists of fields and values.
local function save_in_hash(state, inner, writes, renews, lifetime, now, grace)
  local key, form, override, open = state.key, form_of(state), state.override, state.reservations
  local deleted_fields, first = state.deleted_fields, writes[1]
  local function set(name, value) first[#first + 1], first[#first + 2] = name, value end
  if is_replaced(state) then
    checked(try('DEL', key))
    state.form = nil
  elseif state.replaces_fields then
    delete_log_fields(key)
  end
  local has_new_override = override and (override ~= state.stored_override or form ~= state.form)
  if form == WITH_RESERVATIONS then
    set('h', reservations().encode_sums(open or reservations().new(key), override ~= nil, state) .. inner)
    if has_new_override then set('o', override.bytes) end
    if state.form == WITH_OVERRIDE then deleted_fields[#deleted_fields + 1] = 's' end
    if state.form == WITH_RESERVATIONS and state.stored_override and not override then
      deleted_fields[#deleted_fields + 1] = 'o'
    end
  else
    if form == WITH_OVERRIDE then
      set('s', inner)
      if has_new_override then set('h', override.bytes) end
    else
      set('h', (has_leases_in_front(state) and reservations().encode_leases(open) or '') .. slice(inner, 2))
      if state.form == WITH_OVERRIDE then deleted_fields[#deleted_fields + 1] = 's' end
    end
    if state.form == WITH_RESERVATIONS then deleted_fields[#deleted_fields + 1] = 'o' end
  end
  if open and (form == WITH_RESERVATIONS or state.form == WITH_RESERVATIONS) then
    writes[#writes + 1] = reservations().changed_fields(open, deleted_fields)
    if not writes[#writes][1] then writes[#writes] = nil end
  end
  for _, fields in ipairs(writes) do checked(try('HSET', key, spread(fields))) end
  for i = 1, #deleted_fields, 1000 do call('HDEL', key, spread(deleted_fields, i, min(i + 999, #deleted_fields))) end
  if override then
    -- The expiry of an override without an end was removed when it was set.
    if renews and (has_new_override or override.ends > 0) then overrides().renew_expiry(key, override, lifetime, now, grace) end
  elseif renews then
    call('PEXPIRE', key, math.ceil(lifetime / 1000) + grace)
  end
end

-- Writes a state and its expiry in the same step.
local function save(state, now, grace)
  local key, layout, becomes_string, form = state.key, state.layout, is_string(state), form_of(state)
  local parts = { layout.prefix }
  local keep = keep_for(state, now)
  local lifetime = keep + floor(keep / 4)
  local renews = state.expires_at < now + keep or state.form ~= form or state.replaces_fields
  if renews then state.expires_at = now + lifetime end
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
    if form == STRING and has_leases_in_front(state) then value = reservations().encode_leases(state.reservations) .. value end
    if form ~= STRING then
      state.replaces_fields = state.is_hash
      save_in_hash(state, '\0' .. value, { {} }, renews, lifetime, now, grace)
    elseif renews then
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
  local writes = { {} }
  for name, value in pairs(state.changed_fields) do
    local last = writes[#writes]
    -- Lua can pass only a limited number of arguments at once.
    if #last > 1000 then
      last = {}
      writes[#writes + 1] = last
    end
    last[#last + 1], last[#last + 2] = name, value
  end
  save_in_hash(state, '\1' .. table.concat(parts), writes, renews, lifetime, now, grace)
end
