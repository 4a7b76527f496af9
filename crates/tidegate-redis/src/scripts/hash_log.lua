-- Decides on a log that is a hash, because it has several limits or several pages, without creating a table for it.
--
-- KEYS   not read: the caller passes the key
-- ARGV   not read: the caller passes the bytes of the policy
-- reply  the reply to one group, as in `call.lua`; nil, before anything is written, if a page must be created or
--        dropped, and for every other case that `decide.lua` leaves to `operations.lua`
--
-- The invariants in `log.lua` apply. Here the position of a limit comes only from a hint or from the tail.
--
-- The functions are created when they are first needed, because creating them costs more than a decision.

local CHECK, PEEK, CHARGE, LEASE, SETTLE = 0, 1, 2, 11, 12
local IN_RESERVED_FORM = 2
-- The header of a log: flags, newest charge, expiry of the key, numbers of the log, number of hints.
local HEADER, HEADER_SIZE = '>BI7I7i8i8I7I4I4I7B', 54
local POWER = { 256, 65536, 16777216, 4294967296, 1099511627776, 281474976710656, TWO53 }
local LAYOUTS = {}

local function layout_of(policy)
  local layout = LAYOUTS[policy]
  if layout then return layout end
  local n = unpack('>B', policy, 2)
  layout = { n = n, prefix = 'T\1' .. slice(policy, 1, 2 + 14 * n), window = {}, longest = 0, longest_index = 1 }
  for i = 1, n do
    local window = unpack('>I6', policy, 3 + (i - 1) * 14)
    layout.window[i] = window
    if window > layout.longest then layout.longest, layout.longest_index = window, i end
  end
  layout.capacity = { unpack('>' .. string.rep('I7', n), policy, 4 + 14 * n) }
  LAYOUTS[policy] = layout
  return layout
end

local function error_reply(reply)
  local text = reply.err
  return pack('>BI2', 2, #text) .. text
end

-- For each limit: the page of its horizon, the records of that page and the units before it, and the units in use.
local PAGE_NUMBER, RECORDS_BEFORE, UNITS_BEFORE, IN_USE = {}, {}, {}, {}

-- The sums of the open holds of the key, with the byte that follows them, or ''; the time of the first end, and the units of
-- the newest hold.
local sums, first_end, newest_hold, held_at_newest = '', 0, 0, 0

-- The open leases of the key, their units and the last end, if it has a few leases and nothing else.
local leases, leased, last_end = '', 0, 0

-- Reads the sums of the reservations in front of a header. Its numbers are named in `call.lua`; a function that captures the
-- names makes every call slower. Returns their length; nil, if there are leases, holds that end,
-- or an override.
local function read_sums(s, now)
  local _, flags, ends, hold, held = unpack('>I2BI7i8I7', s)
  if flags % 4 > 0 or ends <= now or (ends == 9000000000000000 and now - hold >= 60000000) then return nil end
  if string.byte(s, 100) ~= 1 then return nil end
  sums, first_end, newest_hold, held_at_newest = slice(s, 1, 100), ends, hold, held
  return 100
end

-- Writes the header of a log, and renews the expiry of the key if needed.
local function set_header(key, layout, now, at, expires_at, kept, before, first, next_, start, tail)
  local keep = (last_end > at and last_end or at) - now + layout.longest
  local is_new, renew = expires_at == 0, expires_at < now + keep
  if renew then expires_at = now + keep + floor(keep / 4) end
  local n, hints = layout.n, ''
  for i = 1, n do hints = hints .. pack(HINT, PAGE_NUMBER[i], RECORDS_BEFORE[i], UNITS_BEFORE[i]) end
  if kept < at - layout.longest then kept = at - layout.longest end
  -- Remembered waits are those of the state before.
  if sums ~= '' then sums = slice(sums, 1, 78) .. ('\0'):rep(21) .. '\1' end
  local header = pack(HEADER, first < next_ and 2 or 0, at, expires_at, kept, 0, before, first, next_, start, n)
  local reply = try('HSET', key, 'h', sums .. lease_header(leases) .. layout.prefix .. header .. hints .. tail)
  if type(reply) == 'table' then return error_reply(reply) end
  if renew then
    reply = try('PEXPIRE', key, ceil((keep + floor(keep / 4)) / 1000) + grace)
    if type(reply) == 'table' then
      -- A key must not remain without an expiry.
      if is_new then call('DEL', key) end
      return error_reply(reply)
    end
  end
end

local function decide_new(layout, key, op, cost, now)
  local charged = op ~= PEEK
  for i = 1, layout.n do
    if cost > layout.capacity[i] and op ~= CHARGE then charged = false end
    PAGE_NUMBER[i], RECORDS_BEFORE[i], UNITS_BEFORE[i] = 0, 0, 0
  end
  if charged then
    if call('EXISTS', key) == 1 then return nil end
    local time_width = 1
    while 2 * layout.longest >= POWER[time_width] do time_width = time_width + 1 end
    if cost >= 65536 or time_width > 7 then return nil end
    local record = pack(UNSIGNED[time_width], 0) .. pack('>I2', cost)
    local tail = pack(TAIL, now, time_width, 2, 0, #record) .. record
    local problem = set_header(key, layout, now, now, 0, now - layout.longest, 0, 0, 0, 0, tail)
    if problem then return problem end
  end
  local reply = pack('>BBI7', 0, charged and 1 or 0, now)
  for i = 1, layout.n do reply = reply .. pack('>I7I7I7', charged and cost or 0, 0, charged and layout.window[i] or 0) end
  return reply
end

local function decide(layout, key, op, cost, now, s, lease, least, earlier, asked, ttl, nonce, most)
  s = s or try('HGET', key, 'h')
  sums, leases, leased, last_end = '', '', 0, 0
  if s == false and not lease then return decide_new(layout, key, op, cost, now) end
  if type(s) ~= 'string' then return nil end
  local offset, has_holds = 0, false
  if slice(s, 1, 2) == 'T\2' then
    offset, has_holds = read_sums(s, now), true
    if not offset or lease then return nil end
  elseif slice(s, 1, 2) == 'T\3' then
    leases, leased, first_end, last_end, offset = read_leases(s)
    if not leases or first_end <= now then return nil end
  end
  if earlier then
    local units
    leases, units = settle_lease(leases, earlier, cost)
    if not leases or (cost == 0 and lease == SETTLE) then return nil end
    leased = leased - units
  end
  local n, at_header = layout.n, offset + #layout.prefix + 1
  if slice(s, offset + 1, at_header - 1) ~= layout.prefix then return nil end
  local flags, newest, expires_at, kept, shift, before, first, next_, start, hints = unpack(HEADER, s, at_header)
  if flags == 1 or shift ~= 0 or hints ~= n or newest - now > FAR_BACK then return nil end
  if offset > 0 and first_end <= newest then return nil end
  local at = now > newest and now or newest
  local at_hints = at_header + HEADER_SIZE
  local at_tail = at_hints + n * HINT_SIZE
  local base, time_width, unit_width, dropped_units, length = unpack(TAIL, s, at_tail)
  local size, from = time_width + unit_width, at_tail + TAIL_SIZE
  local count, time, unit = length / size, UNSIGNED[time_width], UNSIGNED[unit_width]
  if count == 0 then return nil end
  local last = from + (count - 1) * size
  local total = unpack(unit, s, last + time_width)
  local head = base + (unpack(time, s, from))
  local fits = true
  local capacities = layout.capacity
  for i = 1, n do
    local horizon = at - layout.window[i]
    if horizon < kept then horizon = kept end
    local page, k, units = unpack(HINT, s, at_hints + (i - 1) * HINT_SIZE)
    local in_tail = first == next_ or page == next_ or head <= horizon
    if in_tail then
      if page ~= next_ then k = 0 end
    else
      if page < first then return nil end
      local records = call('HGET', key, 'p' .. pack('>BI4', 1, page))
      if not records then return nil end
      local page_base, page_times, page_units = unpack('>i8BB', records)
      local page_size = page_times + page_units
      local page_count = (#records - PAGE_HEADER_SIZE) / page_size
      k = count_to(records, PAGE_HEADER_SIZE + 1, page_size, UNSIGNED[page_times], page_count, horizon - page_base, k)
      if k < page_count then
        PAGE_NUMBER[i], RECORDS_BEFORE[i], UNITS_BEFORE[i] = page, k, units
        if k > 0 then
          units = add(units, (unpack(UNSIGNED[page_units], records, PAGE_HEADER_SIZE + 1 + (k - 1) * page_size + page_times)))
        end
        IN_USE[i] = sub(add(before, total), units)
      elseif page + 1 == next_ then
        in_tail, k = true, 0
      else
        return nil
      end
    end
    if in_tail then
      k = count_to(s, from, size, time, count, horizon - base, k)
      PAGE_NUMBER[i], RECORDS_BEFORE[i], UNITS_BEFORE[i] = next_, k, 0
      IN_USE[i] = total - (k == 0 and dropped_units or unpack(unit, s, from + (k - 1) * size + time_width))
    end
    IN_USE[i] = IN_USE[i] + leased
    if IN_USE[i] + cost > capacities[i] then fits = false end
  end
  local lag, newest_units = at - now, total
  -- Units of holds that may be given back from the newest entry before it expires.
  local held = 0
  if has_holds and newest_hold == newest and first_end < newest + layout.longest then held = held_at_newest end
  if op == CHARGE or (op == CHECK and fits) then
    local longest = layout.longest_index
    if IN_USE[longest] + cost > SATURATION or PAGE_NUMBER[longest] > first and first < next_ then return nil end
    local trimmed = 0
    if PAGE_NUMBER[longest] == next_ then trimmed = RECORDS_BEFORE[longest] end
    local is_same_time = base + unpack(time, s, last) == at
    local earlier_units = count > 1 and unpack(unit, s, last - size + time_width) or dropped_units
    if is_same_time and held > 0 then
      if total + cost - earlier_units <= held then return nil end
    end
    local granted = 0
    if lease == LEASE then
      local free = TWO53
      for i = 1, n do free = min(free, capacities[i] - IN_USE[i] - cost) end
      leases, granted = grant_lease(leases, free, least, asked, most, at, ttl, nonce)
      if not leases then return nil end
    end
    last_end = leases == '' and 0 or unpack('>I7', leases, #leases - LEASE_SIZE + 1)
    -- An entry without units is not needed once it is not the newest one.
    local is_replaced = is_same_time or (lease and total == earlier_units)
    local kept_count = count - trimmed - (is_replaced and trimmed < count and 1 or 0)
    if kept_count >= PAGE then return nil end
    if kept_count <= 0 then
      kept_count = 0
      base = at
    end
    total = total + cost
    if at - base >= POWER[time_width] or total >= POWER[unit_width] then return nil end
    if trimmed > 0 then
      dropped_units = unpack(unit, s, from + (trimmed - 1) * size + time_width)
      for i = 1, n do
        if PAGE_NUMBER[i] == next_ then RECORDS_BEFORE[i] = RECORDS_BEFORE[i] > trimmed and RECORDS_BEFORE[i] - trimmed or 0 end
      end
    end
    if is_replaced then
      for i = 1, n do
        if PAGE_NUMBER[i] == next_ then RECORDS_BEFORE[i] = min(RECORDS_BEFORE[i], kept_count) end
      end
    end
    local records = from + trimmed * size
    local tail = pack(TAIL, base, time_width, unit_width, dropped_units, (kept_count + 1) * size)
      .. slice(s, records, records + kept_count * size - 1) .. pack(time, at - base) .. pack(unit, total)
    local problem = set_header(key, layout, now, at, expires_at, kept, before, first, next_, start, tail)
    if problem then return problem end
    local reply = lease and pack('>BI7', 0, at) or pack('>BBI7', 0, has_holds and 1 + IN_RESERVED_FORM or 1, at)
    for i = 1, n do
      local reset = (leases == '' and lag or last_end - now) + layout.window[i]
      reply = reply .. pack('>I7I7I7', IN_USE[i] + cost + granted, 0, reset)
    end
    if lease then return lease_reply(lease == LEASE, earlier, granted, reply) end
    return reply
  end
  local newest_time = base + unpack(time, s, last)
  local reply = pack('>BBI7', 0, has_holds and IN_RESERVED_FORM or 0, at)
  for i = 1, n do
    local used, retry, reset = IN_USE[i], 0, 0
    if used > 0 then
      local earlier_units = count > 1 and unpack(unit, s, last - size + time_width) or dropped_units
      reset = lag + newest_time - at + layout.window[i]
      if leased > 0 then
        reset = last_end - now + layout.window[i]
      elseif newest_units - earlier_units <= held then
        local unused_at = has_holds and n == 1 and unpack('>I7', sums, 79) or 0
        if unused_at == 0 then return nil end
        reset = unused_at - now
      end
    end
    if used + cost > capacities[i] and cost <= capacities[i] then
      if PAGE_NUMBER[i] ~= next_ or leased + cost > capacities[i] then return nil end
      local k = RECORDS_BEFORE[i]
      local units = (k == 0 and dropped_units or unpack(unit, s, from + (k - 1) * size + time_width)) + used + cost - capacities[i]
      k = count_to(s, from + time_width, size, unit, count, units - 1, k)
      retry = lag + base + unpack(time, s, from + k * size) - at + layout.window[i]
      if has_holds and first_end < now + retry then
        local _, level, known = unpack('>I7I7I7', sums, 79)
        if n > 1 or known == 0 or level ~= capacities[i] - cost then return nil end
        retry = known - now
      end
    end
    reply = reply .. pack('>I7I7I7', used, retry, reset)
  end
  return reply
end

-- `s` is the header, if the caller has read it. What follows is the request of a lease or a settle, as in `decide.lua`.
return function(policy, ...) return decide(layout_of(policy), ...) end
