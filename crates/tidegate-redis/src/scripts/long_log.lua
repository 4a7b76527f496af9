-- Decides a request on a log that is a hash, since it has several limits or several pages, without a table made for it. Nil, before anything is
-- written, where a page has to be made or dropped, and for whatever else `decide.lua` leaves to `thorough.lua`.
--
-- The invariants of a log are those in `log.lua`. Here the place of a limit comes only from a hint or from the tail.
--
-- It is made when it is first needed: making functions costs more than a decision does.

local ceil, FAR_BACK = math.ceil, 60000000
local CHECK, PEEK, CHARGE = 0, 1, 2
local TAIL, TAIL_SIZE, RUN_SIZE = '>i8BBI7I2', 19, 17
local HINT, HINT_SIZE = '>I4I2I7', 13
-- Of a log's header: flags, newest charge, until when the key lives, the log, number of hints.
local HEADER, HEADER_SIZE = '>BI7I7i8i8I7I4I4I7B', 54
local UNSIGNED = { '>I1', '>I2', '>I3', '>I4', '>I5', '>I6', '>I7' }
local POWER = { 256, 65536, 16777216, 4294967296, 1099511627776, 281474976710656, TWO53 }
local SHAPES = {}

local function shape_of(blob)
  local shape = SHAPES[blob]
  if shape then return shape end
  local n = unpack('>B', blob, 2)
  shape = { n = n, prefix = 'T\1' .. slice(blob, 1, 2 + 14 * n), w = {}, longest = 0, longest_at = 1 }
  for i = 1, n do
    local w = unpack('>I6', blob, 3 + (i - 1) * 14)
    shape.w[i] = w
    if w > shape.longest then shape.longest, shape.longest_at = w, i end
  end
  shape.capacity = { unpack('>' .. string.rep('I7', n), blob, 4 + 14 * n) }
  SHAPES[blob] = shape
  return shape
end

local function failed(reply)
  local text = reply.err
  return pack('>BI2', 2, #text) .. text
end

-- How many of n records from `from` on have a number, in this format, that is `most` or less, given that the first k have.
local function count_to(s, from, size, format, n, most, k)
  local step = 1
  from = from - size
  while k + step <= n and unpack(format, s, from + (k + step) * size) <= most do k, step = k + step, step * 2 end
  local above = k + step
  if above > n then above = n + 1 end
  while above - k > 1 do
    local middle = floor((k + above) / 2)
    if unpack(format, s, from + middle * size) <= most then k = middle else above = middle end
  end
  return k
end

-- Where each limit's horizon is: its page, how many of its records are before, the units before the page, those in use.
local PLACE, COUNT, BEFORE, IN_USE = {}, {}, {}, {}

-- Writes a log's header, and lets the key live for as long as it is needed.
local function set_header(key, shape, now, at, until_, kept, before, first, next_, start, tail)
  local keep = at - now + shape.longest
  local is_new, renew = until_ == 0, until_ < now + keep
  if renew then until_ = now + keep + floor(keep / 4) end
  local n, hints = shape.n, ''
  for i = 1, n do hints = hints .. pack(HINT, PLACE[i], COUNT[i], BEFORE[i]) end
  if kept < at - shape.longest then kept = at - shape.longest end
  local header = pack(HEADER, first < next_ and 2 or 0, at, until_, kept, 0, before, first, next_, start, n)
  local reply = try('HSET', key, 'h', shape.prefix .. header .. hints .. tail)
  if type(reply) == 'table' then return failed(reply) end
  if renew then
    reply = try('PEXPIRE', key, ceil((keep + floor(keep / 4)) / 1000) + grace)
    if type(reply) == 'table' then
      -- Never a key without an expiry.
      if is_new then call('DEL', key) end
      return failed(reply)
    end
  end
end

local function new_log_answer(shape, key, op, cost, now)
  local charged = op ~= PEEK
  for i = 1, shape.n do
    if cost > shape.capacity[i] and op ~= CHARGE then charged = false end
    PLACE[i], COUNT[i], BEFORE[i] = 0, 0, 0
  end
  if charged then
    if call('EXISTS', key) == 1 then return nil end
    local time_width = 1
    while 2 * shape.longest >= POWER[time_width] do time_width = time_width + 1 end
    if cost >= 65536 or time_width > 7 then return nil end
    local record = pack(UNSIGNED[time_width], 0) .. pack('>I2', cost)
    local tail = pack(TAIL, now, time_width, 2, 0, #record) .. record
    local problem = set_header(key, shape, now, now, 0, now - shape.longest, 0, 0, 0, 0, tail)
    if problem then return problem end
  end
  local reply = pack('>BBI7', 0, charged and 1 or 0, now)
  for i = 1, shape.n do reply = reply .. pack('>I7I7I7', charged and cost or 0, 0, charged and shape.w[i] or 0) end
  return reply
end

local function fast_log(shape, key, op, cost, now, s)
  s = s or try('HGET', key, 'h')
  if s == false then return new_log_answer(shape, key, op, cost, now) end
  local n, at_header = shape.n, #shape.prefix + 1
  if type(s) ~= 'string' or slice(s, 1, at_header - 1) ~= shape.prefix then return nil end
  local flags, newest, until_, kept, shift, before, first, next_, start, hints = unpack(HEADER, s, at_header)
  if flags == 1 or shift ~= 0 or hints ~= n or newest - now > FAR_BACK then return nil end
  local at = now > newest and now or newest
  local at_hints = at_header + HEADER_SIZE
  local at_tail = at_hints + n * HINT_SIZE
  local base, time_width, unit_width, gone, length = unpack(TAIL, s, at_tail)
  local size, from = time_width + unit_width, at_tail + TAIL_SIZE
  local count, time, unit = length / size, UNSIGNED[time_width], UNSIGNED[unit_width]
  if count == 0 then return nil end
  local last = from + (count - 1) * size
  local total = unpack(unit, s, last + time_width)
  local head = base + (unpack(time, s, from))
  local fits = true
  local capacities = shape.capacity
  for i = 1, n do
    local horizon = at - shape.w[i]
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
      local page_count = (#records - RUN_SIZE) / page_size
      k = count_to(records, RUN_SIZE + 1, page_size, UNSIGNED[page_times], page_count, horizon - page_base, k)
      if k < page_count then
        PLACE[i], COUNT[i], BEFORE[i] = page, k, units
        if k > 0 then
          units = add(units, (unpack(UNSIGNED[page_units], records, RUN_SIZE + 1 + (k - 1) * page_size + page_times)))
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
      PLACE[i], COUNT[i], BEFORE[i] = next_, k, 0
      IN_USE[i] = total - (k == 0 and gone or unpack(unit, s, from + (k - 1) * size + time_width))
    end
    if IN_USE[i] + cost > capacities[i] then fits = false end
  end
  local lag, newest_units = at - now, total
  if op == CHARGE or (op == CHECK and fits) then
    local longest = shape.longest_at
    if IN_USE[longest] + cost > SATURATION or PLACE[longest] > first and first < next_ then return nil end
    local trimmed = 0
    if PLACE[longest] == next_ then trimmed = COUNT[longest] end
    local same = base + unpack(time, s, last) == at
    local kept_count = count - trimmed - (same and trimmed < count and 1 or 0)
    if kept_count >= PAGE then return nil end
    if kept_count <= 0 then
      kept_count = 0
      base = at
    end
    total = total + cost
    if at - base >= POWER[time_width] or total >= POWER[unit_width] then return nil end
    if trimmed > 0 then
      gone = unpack(unit, s, from + (trimmed - 1) * size + time_width)
      for i = 1, n do
        if PLACE[i] == next_ then COUNT[i] = COUNT[i] > trimmed and COUNT[i] - trimmed or 0 end
      end
    end
    local records = from + trimmed * size
    local tail = pack(TAIL, base, time_width, unit_width, gone, (kept_count + 1) * size)
      .. slice(s, records, records + kept_count * size - 1) .. pack(time, at - base) .. pack(unit, total)
    local problem = set_header(key, shape, now, at, until_, kept, before, first, next_, start, tail)
    if problem then return problem end
    local reply = pack('>BBI7', 0, 1, at)
    for i = 1, n do reply = reply .. pack('>I7I7I7', IN_USE[i] + cost, 0, lag + shape.w[i]) end
    return reply
  end
  local newest_entry = base + unpack(time, s, last)
  local reply = pack('>BBI7', 0, 0, at)
  for i = 1, n do
    local used, retry, reset = IN_USE[i], 0, 0
    if used > 0 then
      local earlier = count > 1 and unpack(unit, s, last - size + time_width) or gone
      if earlier == newest_units then return nil end
      reset = lag + newest_entry - at + shape.w[i]
    end
    if used + cost > capacities[i] and cost <= capacities[i] then
      if PLACE[i] ~= next_ then return nil end
      local k = COUNT[i]
      local units = (k == 0 and gone or unpack(unit, s, from + (k - 1) * size + time_width)) + used + cost - capacities[i]
      k = count_to(s, from + time_width, size, unit, count, units - 1, k)
      retry = lag + base + unpack(time, s, from + k * size) - at + shape.w[i]
    end
    reply = reply .. pack('>I7I7I7', used, retry, reset)
  end
  return reply
end

-- The header, where it has been read already, is `s`.
return function(blob, key, op, cost, now, s) return fast_log(shape_of(blob), key, op, cost, now, s) end
