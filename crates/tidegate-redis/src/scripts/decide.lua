-- Decides a batch. Each group of it is one decision: all of its parts are charged, or none is.
--
-- What most requests are is decided right here, without a table or a function made: check, peek or charge of one key under
-- one limit, in a state that is there (or not yet), of the policy's own shape, with no far step back of the clock, no page of
-- a log to be made or dropped, no number beyond 2^53. Anything else is left, before anything is written, to `long_log.lua` or
-- `thorough.lua`, which decide by the same formulas.

local replies, answered, groups, from, place, length = { pack('>I7', now) }, 1, ARGV[2], 1, 1, #ARGV[2]
local current_policy, kind, n, w, buckets, drain, shadow, capacity, prefix = 0
local time_width, unit_width, size, time, unit, record, time_room, unit_room = 0, 0
local long_logs, thorough
-- Strings, read at once where there are several: asking for each costs more than deciding on it. False is what is not there, or
-- not a string: to `SET … NX` both are told apart. Nil is what has not been read.
local found = {}
if #KEYS > 3 then
  kind, n = string.byte(ARGV[3], 1, 2)
  if n == 1 and kind ~= BUCKETS then
    found = try('MGET', spread(KEYS))
    if found.err then found = {} end
  end
end

while from <= length do
  local op, parts, count, deadline, policy, cost = unpack('>BBI2I7I2I7', groups, from)
  local no_new_keys = op >= NO_NEW_KEYS
  if no_new_keys then op = op - NO_NEW_KEYS end
  -- What was read at the beginning is good for the first request to a key, since that may change it.
  local again = op >= AGAIN
  if again then op = op - AGAIN end
  if policy ~= current_policy then
    current_policy = policy
    local blob = ARGV[2 + policy]
    kind, n, w, buckets, drain, shadow, capacity = unpack('>BBI6I2I6BI7', blob)
    prefix = 'T\1' .. slice(blob, 1, 2 + 14 * n)
  end
  if given == 1 then now = deadline end
  for _ = 1, count do
    local key, reply, problem, long = KEYS[place], nil, nil, nil
    if no_new_keys and op <= CHARGE and now <= deadline then
      local flags = ''
      for i = place, place + parts - 1 do flags = flags .. (try('EXISTS', KEYS[i]) == 0 and '\0' or '\1') end
      if find(flags, '\0', 1, true) then reply = '\3' .. flags end
    end
    if reply then
      -- There is no room for a new key.
    elseif now > deadline then
      reply = '\1'
    elseif parts > 1 or op > CHARGE then
      reply = nil
    elseif n == 1 and kind == COUNTER then
      local s = found[place]
      if again or s == nil or (not s and (op == PEEK or cost > capacity)) then s = try('GET', key) end
      local newest, until_, current, previous = now, 0, 0, 0
      local known = s == false
      if not known and type(s) == 'string' and #s == 46 and find(s, prefix, 1, true) == 1 then
        known, newest, until_, current, previous = true, unpack('>I7I7I7I7', s, 19)
      end
      if known and newest - now <= FAR_BACK then
        local at = now > newest and now or newest
        local into = at % w
        local start = at - into
        if start > newest then
          previous = start - w > newest and 0 or current
          current = 0
        end
        local left, lag = w - into, at - now
        local product = previous * left
        local used = current + (product - product % w) / w
        if product >= TWO53 then
          reply = nil
        elseif op == CHARGE or (op == CHECK and used + cost <= capacity) then
          current = current + cost
          if current <= SATURATION then
            local keep, done = lag + 2 * w, nil
            if until_ < now + keep then
              local more = floor(keep / 4)
              done = try('SET', key, prefix .. pack('>I7I7I7I7', at, now + keep + more, current, previous), 'PX',
                ceil((keep + more) / 1000) + grace, s and 'XX' or 'NX')
            else
              done = try('SETRANGE', key, '18', pack('>I7I7I7I7', at, until_, current, previous))
            end
            problem = type(done) == 'table' and done.err
            -- In the next window these are the previous ones; so much of it is left when the last no longer counts.
            used = used + cost
            if used > SATURATION then used = SATURATION end
            if done then reply = pack(ANSWER, 0, 1, at, used, 0, lag + left + w - ceil(w / current) + 1) end
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
      local s = found[place]
      -- Of one key, too, since it tells a hash from an error without making one.
      if again or s == nil then
        s = try('MGET', key)
        if not s.err then s = s[1] end
      end
      if s == false then
        long = try('HGET', key, 'h')
        if long == false then
          long = nil
          if op == CHARGE or (op == CHECK and cost <= capacity) then
            local width = 1
            while 2 * w >= 256 ^ width do width = width + 1 end
            if cost < 65536 then
              local more = floor(w / 4)
              local done = try('SET', key, prefix .. pack(SHORT, now + w + more, now, width, 2, 0)
                .. pack('>I' .. width .. 'I2', 0, cost), 'PX', ceil((w + more) / 1000) + grace, 'NX')
              if done then
                problem = done.err
                reply = pack(ANSWER, 0, 1, now, cost, 0, w)
              end
            end
          elseif try('EXISTS', key) == 0 then
            reply = pack(ANSWER, 0, 0, now, 0, 0, 0)
          end
        elseif type(long) ~= 'string' then
          long = nil
        end
      elseif type(s) == 'string' and #s > SHORT_SIZE and find(s, prefix, 1, true) == 1 then
        local until_, base, its_time_width, its_unit_width, gone = unpack(SHORT, s, 19)
        if its_time_width ~= time_width or its_unit_width ~= unit_width then
          time_width, unit_width = its_time_width, its_unit_width
          size, time, unit = time_width + unit_width, '>I' .. time_width, '>I' .. unit_width
          record = time .. 'I' .. unit_width
          time_room, unit_room = 256 ^ time_width, math.min(256 ^ unit_width, TWO53)
        end
        local entries, last = (#s - SHORT_SIZE) / size, #s - size + 1
        if time_width > 0 and time_width < 8 and unit_width > 0 and unit_width < 8 and entries == floor(entries) then
          local last_time, total = unpack(record, s, last)
          local newest = base + last_time
          if newest - now <= FAR_BACK then
            local at = now > newest and now or newest
            local horizon, k, before = at - w - base, 0, gone
            if unpack(time, s, FIRST) <= horizon then
              local step, above = 1, 0
              k = 1
              while k + step <= entries and unpack(time, s, FIRST + (k + step - 1) * size) <= horizon do
                k, step = k + step, step * 2
              end
              above = k + step > entries and entries + 1 or k + step
              while above - k > 1 do
                local middle = floor((k + above) / 2)
                if unpack(time, s, FIRST + (middle - 1) * size) <= horizon then k = middle else above = middle end
              end
              before = unpack(unit, s, FIRST + (k - 1) * size + time_width)
            end
            local used, lag = total - before, at - now
            if op == CHARGE or (op == CHECK and used + cost <= capacity) then
              local kept, keep, done = entries - k, lag + w, nil
              if newest == at and kept > 0 then kept = kept - 1 end
              total = total + cost
              if kept < PAGE and (kept == 0 or at - base < time_room) and total < unit_room and used + cost <= SATURATION then
                if newest == at or entries >= PAGE or 2 * k > entries or until_ - now < keep then
                  -- Written anew: what is forgotten goes, and the key lives on.
                  if kept == 0 then base = at end
                  local more, first = floor(keep / 4), FIRST + k * size
                  done = try('SET', key, prefix .. pack(SHORT, now + keep + more, base, time_width, unit_width, before)
                    .. slice(s, first, first + kept * size - 1) .. pack(record, at - base, total), 'PX',
                    ceil((keep + more) / 1000) + grace)
                else
                  done = try('APPEND', key, pack(record, at - base, total))
                end
                problem = type(done) == 'table' and done.err
                reply = pack(ANSWER, 0, 1, at, used + cost, 0, keep)
              end
            elseif used == 0 then
              reply = pack(ANSWER, 0, 0, at, 0, 0, 0)
            elseif total > (entries > 1 and unpack(unit, s, last - size + time_width) or gone) then
              local retry = 0
              if used + cost > capacity and cost <= capacity then
                -- The entry with which so many units are gone that it fits.
                local units, step, above = total + cost - capacity, 1, 0
                local offset = FIRST + time_width - size
                while k + step <= entries and unpack(unit, s, offset + (k + step) * size) < units do
                  k, step = k + step, step * 2
                end
                above = k + step > entries and entries + 1 or k + step
                while above - k > 1 do
                  local middle = floor((k + above) / 2)
                  if unpack(unit, s, offset + middle * size) < units then k = middle else above = middle end
                end
                retry = base + unpack(time, s, FIRST + k * size) - now + w
              end
              reply = pack(ANSWER, 0, 0, at, used, retry, newest - now + w)
            end
          end
        end
      end
    elseif n == 1 and kind == GCRA then
      local s = found[place]
      if again or s == nil or (not s and (op == PEEK or cost > capacity)) then s = try('GET', key) end
      local newest, until_, high, debt = now, 0, 0, 0
      local known = s == false
      if not known and type(s) == 'string' and #s == 44 and find(s, prefix, 1, true) == 1 then
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
                ceil((keep + more) / 1000) + grace, s and 'XX' or 'NX')
            else
              done = try('SETRANGE', key, '18', pack('>I7I7I6I6', at, until_, 0, debt))
            end
            problem = type(done) == 'table' and done.err
            if done then reply = pack(ANSWER, 0, 1, at, used + cost, 0, lag + reset) end
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
      local s = found[place]
      if again or s == nil or (not s and (op == PEEK or cost > capacity)) then s = try('GET', key) end
      local newest, until_, used = now, 0, 0
      local known = s == false
      if not known and type(s) == 'string' and #s == 39 and find(s, prefix, 1, true) == 1 then
        known, newest, until_, used = true, unpack('>I7I7I7', s, 19)
      end
      if known and newest - now <= FAR_BACK then
        local at = now > newest and now or newest
        local into, lag = at % w, at - now
        if at - into > newest then used = 0 end
        local left = w - into
        if op == CHARGE or (op == CHECK and used + cost <= capacity) then
          used = used + cost
          if used <= SATURATION then
            local keep, done = lag + w, nil
            if until_ < now + keep then
              local more = floor(keep / 4)
              done = try('SET', key, prefix .. pack('>I7I7I7', at, now + keep + more, used), 'PX',
                ceil((keep + more) / 1000) + grace, s and 'XX' or 'NX')
            else
              done = try('SETRANGE', key, '18', pack('>I7I7I7', at, until_, used))
            end
            problem = type(done) == 'table' and done.err
            if done then reply = pack(ANSWER, 0, 1, at, used, 0, lag + left) end
          end
        else
          local retry = used + cost > capacity and cost <= capacity and lag + left or 0
          reply = pack(ANSWER, 0, 0, at, used, retry, used > 0 and lag + left or 0)
        end
      end
    end
    if problem then
      reply = pack('>BI2', 2, #problem) .. problem
    elseif long or (not reply and n > 1 and kind == LOG and parts == 1 and op <= CHARGE) then
      long_logs = long_logs or long_log()
      -- A damaged state must not end the others' decisions; `thorough.lua` tells what is wrong with it.
      local fine, answer = pcall(long_logs, ARGV[2 + policy], key, op, cost, now, long)
      reply = fine and answer or nil
    end
    if not reply then
      thorough = thorough or everything()
      reply = thorough(op, parts, from + 11, place)
    end
    answered = answered + 1
    replies[answered] = reply
    place = place + parts
  end
  from = from + 11 + 16 * parts
end
return table.concat(replies)
