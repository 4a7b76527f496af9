-- What most requests are, without a table made: one key, one operation on one state that is there (or not yet), in the
-- policy's own shape, not a far step back of the clock, no page of a log to be made or dropped, no number beyond 2^53.
-- Anything else is nil here, before anything is written, and decided by `thorough.lua`, to the same effect.

local PAGE = 128
local UNSIGNED = { '>I1', '>I2', '>I3', '>I4', '>I5', '>I6', '>I7' }
local RUN, RUN_SIZE = '>i8BBI7', 17
local LOG_META, LOG_META_SIZE = '>i8i8I7I4I4I7', 38
local HINT, HINT_SIZE = '>I4I2I7', 13
-- Of a log's header: whether its shape has changed, newest charge, until when the key lives, the log, number of hints.
local HEADER, HEADER_SIZE = '>BI7I7i8i8I7I4I4I7B', 54
local ANSWER = '>BBI7I7I7I7'

-- The string of a plain state of one limit; nil if it is none, false if there is none.
local function plain(policy, key, size)
  local shape = policy.shape
  if shape.n > 1 then return nil end
  local s = try('GET', key)
  if s == false then return false end
  if type(s) ~= 'string' or #s ~= size or slice(s, 1, 18) ~= shape.prefix then return nil end
  return s
end

local function failed(reply)
  local text = reply.err
  return pack('>BI2', 2, #text) .. text
end

local function set_plain(key, value, keep)
  local reply = try('SET', key, value, 'PX', math.ceil(keep / 1000) + grace)
  if reply.err then return failed(reply) end
end

local function fast_counter(policy, key, op, cost)
  local s = plain(policy, key, 39)
  if s == nil then return nil end
  local shape, capacity = policy.shape, policy.capacity[1]
  local w, newest, current, previous = shape.w[1], now, 0, 0
  if s then newest, current, previous = unpack('>I7I7I7', s, 19) end
  if newest - now > FAR_BACK then return nil end
  local at = now > newest and now or newest
  local start = floor(at / w) * w
  if start > newest then
    if start - w > newest then previous = 0 else previous = current end
    current = 0
  end
  local left, product = w - (at - start), 0
  local used = current
  if previous > 0 then
    product = previous * left
    if product >= TWO53 then return nil end
    used = used + floor(product / w)
  end
  local lag = at - now
  if op == CHARGE_OP or (op == CHECK and used + cost <= capacity) then
    current = current + cost
    if current > SATURATION then return nil end
    local value = shape.prefix .. pack('>I7I7I7', at, current, previous)
    return set_plain(key, value, at - now + 2 * w)
      -- The window after this one, less what is left of it when the last of these units no longer counts.
      or pack(ANSWER, 0, 1, at, used + cost, 0, lag + left + w - (mul_div_up(1, w, current) - 1))
  end
  local retry, reset = 0, 0
  if used + cost > capacity and cost <= capacity then
    local level, kept = capacity - cost, 0
    if current <= level then
      if previous <= level - current then
        kept = w
      else
        kept = mul_div_up(level - current + 1, w, previous) - 1
        if kept > w then kept = w end
      end
    end
    if kept > 0 then
      retry = left > kept and left - kept or 0
    elseif current <= level then
      retry = left
    else
      retry = left + w - (mul_div_up(level + 1, w, current) - 1)
    end
    retry = retry + lag
  end
  if current > 0 then
    reset = lag + left + w - (mul_div_up(1, w, current) - 1)
  elseif used > 0 then
    local kept = mul_div_up(1, w, previous) - 1
    reset = lag + (kept > 0 and (left > kept and left - kept or 0) or left)
  end
  return pack(ANSWER, 0, 0, at, used, retry, reset)
end

local function fast_gcra(policy, key, op, cost)
  local s = plain(policy, key, 37)
  if s == nil then return nil end
  local shape, capacity = policy.shape, policy.capacity[1]
  local w, drain, newest, high, debt = shape.w[1], shape.drain[1], now, 0, 0
  if s then newest, high, debt = unpack('>I7I6I6', s, 19) end
  if newest - now > FAR_BACK or high > 0 then return nil end
  local at = now > newest and now or newest
  local drained = (at - newest) * drain
  debt = drained < debt and debt - drained or 0
  local used, lag, worth = math.ceil(debt / w), at - now, cost * w
  if op == CHARGE_OP or (op == CHECK and used + cost <= capacity) then
    debt = debt + worth
    if debt >= TWO48 then return nil end
    local reset = math.ceil(debt / drain)
    local value = shape.prefix .. pack('>I7I6I6', at, 0, debt)
    return set_plain(key, value, lag + (reset > w and reset or w)) or pack(ANSWER, 0, 1, at, used + cost, 0, lag + reset)
  end
  local retry = 0
  if used + cost > capacity and cost <= capacity then
    local kept = (capacity - cost) * w
    if kept >= TWO53 then return nil end
    retry = lag + math.ceil((debt - kept) / drain)
  end
  return pack(ANSWER, 0, 0, at, used, retry, used > 0 and lag + math.ceil(debt / drain) or 0)
end

local function fast_fixed(policy, key, op, cost)
  local s = plain(policy, key, 32)
  if s == nil then return nil end
  local shape, capacity = policy.shape, policy.capacity[1]
  local w, newest, used = shape.w[1], now, 0
  if s then newest, used = unpack('>I7I7', s, 19) end
  if newest - now > FAR_BACK then return nil end
  local at = now > newest and now or newest
  local start = floor(at / w) * w
  if start > newest then used = 0 end
  local left, lag = w - (at - start), at - now
  if op == CHARGE_OP or (op == CHECK and used + cost <= capacity) then
    used = used + cost
    if used > SATURATION then return nil end
    return set_plain(key, shape.prefix .. pack('>I7I7', at, used), lag + w)
      or pack(ANSWER, 0, 1, at, used, 0, lag + left)
  end
  local retry = used + cost > capacity and cost <= capacity and lag + left or 0
  return pack(ANSWER, 0, 0, at, used, retry, used > 0 and lag + left or 0)
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
local function set_header(key, shape, at, until_, before, first, next_, start, tail)
  local keep = at - now + shape.longest
  local renew = until_ < now + keep
  if renew then until_ = now + keep + floor(keep / 4) end
  local n, hints = shape.n, ''
  for i = 1, n do hints = hints .. pack(HINT, PLACE[i], COUNT[i], BEFORE[i]) end
  local kept = at - shape.longest
  local header = pack(HEADER, 0, at, until_, 0, kept, before, first, next_, start, n)
  local reply = try('HSET', key, 'h', shape.prefix .. header .. hints .. tail)
  if type(reply) == 'table' then return failed(reply) end
  if renew then call('PEXPIRE', key, math.ceil((keep + floor(keep / 4)) / 1000) + grace) end
end

local function new_log_answer(policy, key, op, cost)
  local shape, charged = policy.shape, op ~= PEEK
  for i = 1, shape.n do
    if cost > policy.capacity[i] and op ~= CHARGE_OP then charged = false end
    PLACE[i], COUNT[i], BEFORE[i] = 0, 0, 0
  end
  if charged then
    if call('EXISTS', key) == 1 then return nil end
    local time_width = 1
    while 2 * shape.longest >= 256 ^ time_width do time_width = time_width + 1 end
    if cost >= 65536 or time_width > 7 then return nil end
    local record = pack(UNSIGNED[time_width], 0) .. pack('>I2', cost)
    local tail = pack('>i8BBI7I2', now, time_width, 2, 0, #record) .. record
    local problem = set_header(key, shape, now, 0, 0, 0, 0, 0, tail)
    if problem then return problem end
  end
  local reply = pack('>BBI7', 0, charged and 1 or 0, now)
  for i = 1, shape.n do reply = reply .. pack('>I7I7I7', charged and cost or 0, 0, charged and shape.w[i] or 0) end
  return reply
end

local function fast_log(policy, key, op, cost)
  local shape = policy.shape
  local s = try('HGET', key, 'h')
  if not s then return new_log_answer(policy, key, op, cost) end
  local n, at_header = shape.n, #shape.prefix + 1
  if type(s) ~= 'string' or slice(s, 1, at_header - 1) ~= shape.prefix then return nil end
  local moved, newest, until_, shift, kept, before, first, next_, start, hints = unpack(HEADER, s, at_header)
  if moved == 1 or shift ~= 0 or hints ~= n or newest - now > FAR_BACK then return nil end
  local at = now > newest and now or newest
  local at_hints = at_header + HEADER_SIZE
  local at_tail = at_hints + n * HINT_SIZE
  local base, time_width, unit_width, gone, length = unpack('>i8BBI7I2', s, at_tail)
  local size, from = time_width + unit_width, at_tail + RUN_SIZE + 2
  local count, time, unit = length / size, UNSIGNED[time_width], UNSIGNED[unit_width]
  if count == 0 then return nil end
  local last = from + (count - 1) * size
  local total = unpack(unit, s, last + time_width)
  local head = base + (unpack(time, s, from))
  local fits = true
  local capacities = policy.capacity
  for i = 1, n do
    local horizon = at - shape.w[i]
    if horizon < kept then horizon = kept end
    local page, k, units = unpack(HINT, s, at_hints + (i - 1) * HINT_SIZE)
    if first == next_ or head <= horizon then
      if page ~= next_ then k = 0 end
      k = count_to(s, from, size, time, count, horizon - base, k)
      PLACE[i], COUNT[i], BEFORE[i] = next_, k, 0
      IN_USE[i] = total - (k == 0 and gone or unpack(unit, s, from + (k - 1) * size + time_width))
    else
      if page < first or page >= next_ then return nil end
      local records = call('HGET', key, 'p' .. pack('>BI4', 1, page))
      if not records then return nil end
      local page_base, page_times, page_units = unpack('>i8BB', records)
      local page_size = page_times + page_units
      local page_count = (#records - RUN_SIZE) / page_size
      k = count_to(records, RUN_SIZE + 1, page_size, UNSIGNED[page_times], page_count, horizon - page_base, k)
      if k == page_count and page + 1 < next_ then return nil end
      PLACE[i], COUNT[i], BEFORE[i] = page, k, units
      if k > 0 then
        units = add(units, (unpack(UNSIGNED[page_units], records, RUN_SIZE + 1 + (k - 1) * page_size + page_times)))
      end
      IN_USE[i] = sub(add(before, total), units)
    end
    if IN_USE[i] + cost > capacities[i] then fits = false end
  end
  local lag, newest_units = at - now, total
  if op == CHARGE_OP or (op == CHECK and fits) then
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
    if at - base >= 256 ^ time_width or total >= 256 ^ unit_width then return nil end
    if trimmed > 0 then
      gone = unpack(unit, s, from + (trimmed - 1) * size + time_width)
      for i = 1, n do
        if PLACE[i] == next_ then COUNT[i] = COUNT[i] > trimmed and COUNT[i] - trimmed or 0 end
      end
    end
    local records = from + trimmed * size
    local tail = pack('>i8BBI7I2', base, time_width, unit_width, gone, (kept_count + 1) * size)
      .. slice(s, records, records + kept_count * size - 1) .. pack(time, at - base) .. pack(unit, total)
    local problem = set_header(key, shape, at, until_, before, first, next_, start, tail)
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

local FAST = { [LOG] = fast_log, [COUNTER] = fast_counter, [FIXED] = fast_fixed, [GCRA] = fast_gcra }
