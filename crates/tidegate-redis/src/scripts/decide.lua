-- Decides a batch. Each group of it is one decision: all of its parts are charged, or none is.
--
-- What most requests are is decided right here, without a table or a function made: check, peek or charge of one key under
-- one limit, in a state that is there (or not yet), of the policy's own shape, with no far step back of the clock, no page of
-- a log to be made or dropped, no number beyond 2^53. Anything else is left, before anything is written, to `long_log.lua` or
-- `thorough.lua`, which decide by the same formulas.

local replies, groups, from, place, length = { pack('>I7', now) }, ARGV[2], 1, 1, #ARGV[2]
local current_policy, kind, n, w, buckets, drain, shadow, capacity, prefix = 0
local long_logs, thorough
local RECORDS = {}
-- Strings by key, read at once where there are several: asking for each costs more than deciding on it. Each is good for one
-- request, since that may change it. A hash reads as if it were not there, so that what isn't found here is asked for by itself.
local held = {}
if #KEYS > 3 and (string.find(ARGV[3], '^[\2\4\5]')) then
  local found = try('MGET', spread(KEYS))
  if not found.err then
    for i = 1, #KEYS do held[KEYS[i]] = found[i] end
  end
end

while from <= length do
  local op, parts, deadline, policy, cost = unpack('>BBI7I2I7', groups, from)
  local key, reply, problem, long = KEYS[place], nil, nil, nil
  if policy ~= current_policy then
    current_policy = policy
    local blob = ARGV[2 + policy]
    kind, n, w, buckets, drain, shadow, capacity = unpack('>BBI6I2I6BI7', blob)
    prefix = 'T\1' .. slice(blob, 1, 2 + 14 * n)
  end
  if given == 1 then now = deadline end
  if now > deadline then
    reply = '\1'
  elseif parts > 1 or op > CHARGE then
    reply = nil
  elseif n == 1 and kind == COUNTER then
    local s = held[key] or try('GET', key)
    held[key] = nil
    local newest, until_, current, previous = now, 0, 0, 0
    local known = s == false
    if not known and type(s) == 'string' and #s == 46 and slice(s, 1, 18) == prefix then
      known, newest, until_, current, previous = true, unpack('>I7I7I7I7', s, 19)
    end
    if known and newest - now <= FAR_BACK then
      local at = now > newest and now or newest
      local start = floor(at / w) * w
      if start > newest then
        previous = start - w > newest and 0 or current
        current = 0
      end
      local left, product, lag = w - (at - start), previous * (w - (at - start)), at - now
      local used = current + floor(product / w)
      if product >= TWO53 then
        reply = nil
      elseif op == CHARGE or (op == CHECK and used + cost <= capacity) then
        current = current + cost
        if current <= SATURATION then
          local keep, done = lag + 2 * w, nil
          if until_ < now + keep then
            local more = floor(keep / 4)
            done = try('SET', key, prefix .. pack('>I7I7I7I7', at, now + keep + more, current, previous), 'PX',
              ceil((keep + more) / 1000) + grace)
          else
            done = try('SETRANGE', key, '18', pack('>I7I7I7I7', at, until_, current, previous))
          end
          problem = type(done) == 'table' and done.err
          -- In the next window these are the previous ones; so much of it is left when the last no longer counts.
          used = used + cost
          if used > SATURATION then used = SATURATION end
          reply = pack(ANSWER, 0, 1, at, used, 0, lag + left + w - ceil(w / current) + 1)
        end
      else
        local retry, reset = 0, 0
        product = 0
        if used + cost > capacity and cost <= capacity then
          local level = capacity - cost
          if current > level then
            product = (level + 1) * w
            retry = left + w - ceil(product / current) + 1
          else
            product = (level - current + 1) * w
            local kept = ceil(product / previous) - 1
            retry = kept == 0 and left or left > kept and left - kept or 0
          end
          retry = retry + lag
        end
        if current > 0 then
          reset = lag + left + w - ceil(w / current) + 1
        elseif used > 0 then
          local kept = ceil(w / previous) - 1
          reset = lag + (kept == 0 and left or left > kept and left - kept or 0)
        end
        if product < TWO53 then reply = pack(ANSWER, 0, 0, at, used, retry, reset) end
      end
    end
  elseif n == 1 and kind == LOG then
    local s = try('HGET', key, 'h')
    if s == false then
      local charged = op == CHARGE or (op == CHECK and cost <= capacity)
      if not charged then
        reply = pack(ANSWER, 0, 0, now, 0, 0, 0)
      elseif cost < 65536 and try('EXISTS', key) == 0 then
        local time_width, more = 1, floor(w / 4)
        while 2 * w >= POWER[time_width] do time_width = time_width + 1 end
        local done = try('HSET', key, 'h', prefix .. pack('>BI7I7i8i8I7I4I4I7BI4I2I7i8BBI7I2', 0, now, now + w + more, now - w,
          0, 0, 0, 0, 0, 1, 0, 0, 0, now, time_width, 2, 0, time_width + 2) .. pack(UNSIGNED[time_width], 0)
          .. pack('>I2', cost))
        problem = type(done) == 'table' and done.err
        if not problem then
          done = try('PEXPIRE', key, ceil((w + more) / 1000) + grace)
          problem = type(done) == 'table' and done.err
          -- Never a key without an expiry.
          if problem then call('DEL', key) end
        end
        reply = pack(ANSWER, 0, 1, now, cost, 0, w)
      end
    elseif type(s) == 'string' and #s > 104 and slice(s, 1, 18) == prefix then
      -- 15 bytes of flags and times, 8 of what is forgotten, 31 that only pages change, a hint of 13, the tail's 19.
      local flags, newest, until_ = unpack('>BI7I7', s, 19)
      local base, time_width, unit_width, gone, bytes = unpack(TAIL, s, 86)
      if flags == 2 then
        long = s
      elseif flags == 0 and newest - now <= FAR_BACK and bytes > 0 and #s == 104 + bytes and UNSIGNED[time_width]
        and UNSIGNED[unit_width] and bytes % (time_width + unit_width) == 0 then
        local at = now > newest and now or newest
        local size, time, unit = time_width + unit_width, UNSIGNED[time_width], UNSIGNED[unit_width]
        local record = RECORDS[time_width * 8 + unit_width]
        if not record then
          record = time .. slice(unit, 2)
          RECORDS[time_width * 8 + unit_width] = record
        end
        local count, last, horizon, k, before = bytes / size, 105 + bytes - size, at - w - base, 0, gone
        local last_time, total = unpack(record, s, last)
        if unpack(time, s, 105) <= horizon then
          local step, above = 1, 0
          k = 1
          while k + step <= count and unpack(time, s, 105 + (k + step - 1) * size) <= horizon do
            k, step = k + step, step * 2
          end
          above = k + step > count and count + 1 or k + step
          while above - k > 1 do
            local middle = floor((k + above) / 2)
            if unpack(time, s, 105 + (middle - 1) * size) <= horizon then k = middle else above = middle end
          end
          before = unpack(unit, s, 105 + (k - 1) * size + time_width)
        end
        local used, lag = total - before, at - now
        if op == CHARGE or (op == CHECK and used + cost <= capacity) then
          local kept = count - k
          if kept > 0 and base + last_time == at then kept = kept - 1 end
          if kept == 0 then base = at end
          total = total + cost
          if kept < PAGE and at - base < POWER[time_width] and total < POWER[unit_width] and used + cost <= SATURATION then
            local keep, first, renew = lag + w, 105 + k * size, until_ - now < lag + w
            if renew then until_ = now + keep + floor(keep / 4) end
            local done = try('HSET', key, 'h', prefix .. pack('>BI7I7i8', 0, at, until_, at - w) .. slice(s, 42, 85)
              .. pack(TAIL, base, time_width, unit_width, before, (kept + 1) * size)
              .. slice(s, first, first + kept * size - 1) .. pack(record, at - base, total))
            problem = type(done) == 'table' and done.err
            if renew and not problem then
              done = try('PEXPIRE', key, ceil((keep + floor(keep / 4)) / 1000) + grace)
              problem = type(done) == 'table' and done.err
            end
            reply = pack(ANSWER, 0, 1, at, used + cost, 0, lag + w)
          end
        elseif used == 0 then
          reply = pack(ANSWER, 0, 0, at, 0, 0, 0)
        elseif total > (count > 1 and unpack(unit, s, last - size + time_width) or gone) then
          local retry = 0
          if used + cost > capacity and cost <= capacity then
            -- The entry with which so many units are gone that it fits.
            local units, step, above = total + cost - capacity, 1, 0
            local offset = 105 + time_width - size
            while k + step <= count and unpack(unit, s, offset + (k + step) * size) < units do
              k, step = k + step, step * 2
            end
            above = k + step > count and count + 1 or k + step
            while above - k > 1 do
              local middle = floor((k + above) / 2)
              if unpack(unit, s, offset + middle * size) < units then k = middle else above = middle end
            end
            retry = base + unpack(time, s, 105 + k * size) - now + w
          end
          reply = pack(ANSWER, 0, 0, at, used, retry, base + last_time - now + w)
        end
      end
    end
  elseif n == 1 and kind == GCRA then
    local s = held[key] or try('GET', key)
    held[key] = nil
    local newest, until_, high, debt = now, 0, 0, 0
    local known = s == false
    if not known and type(s) == 'string' and #s == 44 and slice(s, 1, 18) == prefix then
      known, newest, until_, high, debt = true, unpack('>I7I7I6I6', s, 19)
    end
    if known and high == 0 and newest - now <= FAR_BACK then
      local at = now > newest and now or newest
      local drained, lag = (at - newest) * drain, at - now
      debt = drained < debt and debt - drained or 0
      local used = ceil(debt / w)
      if op == CHARGE or (op == CHECK and used + cost <= capacity) then
        debt = debt + cost * w
        if debt < TWO48 then
          local reset = ceil(debt / drain)
          local keep, done = lag + (reset > w and reset or w), nil
          if until_ < now + keep then
            local more = floor(keep / 4)
            done = try('SET', key, prefix .. pack('>I7I7I6I6', at, now + keep + more, 0, debt), 'PX',
              ceil((keep + more) / 1000) + grace)
          else
            done = try('SETRANGE', key, '18', pack('>I7I7I6I6', at, until_, 0, debt))
          end
          problem = type(done) == 'table' and done.err
          reply = pack(ANSWER, 0, 1, at, used + cost, 0, lag + reset)
        end
      else
        local retry, kept = 0, 0
        if used + cost > capacity and cost <= capacity then
          kept = (capacity - cost) * w
          retry = lag + ceil((debt - kept) / drain)
        end
        if kept < TWO53 then reply = pack(ANSWER, 0, 0, at, used, retry, used > 0 and lag + ceil(debt / drain) or 0) end
      end
    end
  elseif n == 1 and kind == FIXED then
    local s = held[key] or try('GET', key)
    held[key] = nil
    local newest, until_, used = now, 0, 0
    local known = s == false
    if not known and type(s) == 'string' and #s == 39 and slice(s, 1, 18) == prefix then
      known, newest, until_, used = true, unpack('>I7I7I7', s, 19)
    end
    if known and newest - now <= FAR_BACK then
      local at = now > newest and now or newest
      local start, lag = floor(at / w) * w, at - now
      if start > newest then used = 0 end
      local left = w - (at - start)
      if op == CHARGE or (op == CHECK and used + cost <= capacity) then
        used = used + cost
        if used <= SATURATION then
          local keep, done = lag + w, nil
          if until_ < now + keep then
            local more = floor(keep / 4)
            done = try('SET', key, prefix .. pack('>I7I7I7', at, now + keep + more, used), 'PX', ceil((keep + more) / 1000) + grace)
          else
            done = try('SETRANGE', key, '18', pack('>I7I7I7', at, until_, used))
          end
          problem = type(done) == 'table' and done.err
          reply = pack(ANSWER, 0, 1, at, used, 0, lag + left)
        end
      else
        local retry = used + cost > capacity and cost <= capacity and lag + left or 0
        reply = pack(ANSWER, 0, 0, at, used, retry, used > 0 and lag + left or 0)
      end
    end
  end
  if problem then
    reply = pack('>BI2', 2, #problem) .. problem
  elseif not reply and kind == LOG and (long or n > 1) and parts == 1 and op <= CHARGE then
    long_logs = long_logs or long_log()
    -- A damaged state must not end the others' decisions; `thorough.lua` tells what is wrong with it.
    local fine, answer = pcall(long_logs, ARGV[2 + policy], key, op, cost, now, long)
    reply = fine and answer or nil
  end
  if not reply then
    thorough = thorough or everything()
    reply = thorough(op, parts, from + 9, place)
    for i = place, place + parts - 1 do held[KEYS[i]] = nil end
  end
  replies[#replies + 1] = reply
  from, place = from + 9 + 16 * parts, place + parts
end
return table.concat(replies)
