-- Decides on a key whose state is a few numbers: one limit of a counter, a debt or a fixed window.
--
-- KEYS   the key
-- ARGV   not read
-- reply  to one group, as in `call.lua`; nil, before anything is written, in every other case

local s, header = values[key_index], headers and headers[key]
if not header and expects_reservations then
  header = try('HGET', key, 'h')
  if type(header) ~= 'string' then header = nil end
end
if header then
  s = true
elseif is_repeated or s == nil or (not s and (op == PEEK or cost > capacity) and not lease) then
  s = try('GET', key)
end
local is_hash
repeat
  is_hash = false
  -- The numbers of the state: current and previous units of a counter, the two halves of a debt, or the units of a
  -- fixed window.
  local newest, expires_at, first, second = now, 0, 0, 0
  -- The flags of the sums of open holds, the first end and the time of the newest hold, if the key has any.
  local holds, first_end, newest_hold
  -- GET is an error for a hash.
  if type(s) == 'table' then
    header = try('HGET', key, 'h')
    s = true
  end
  if header and type(header) == 'string' and #header == AT_STATE + state_size
    and find(header, prefix, AT_STATE + 1, true) == AT_STATE + 1 then
    local mark, flags, ends, hold = unpack(FIRST_SUMS, header)
    local is_used = ends ~= NEVER or now - hold < RESERVED_FOR
    if mark == IS_RESERVED and flags % HAS_MORE == 0 and ends > now and is_used then
      holds, first_end, newest_hold = flags, ends, hold
      newest, expires_at, first, second = unpack(number_format, header, AT_STATE + 19)
    end
  end
  local known, leases, leased, last_end = not lease and (s == false or holds), nil, 0, 0
  if not known and type(s) == 'string' then
    if #s == state_size and find(s, prefix, 1, true) == 1 then
      known, newest, expires_at, first, second = true, unpack(number_format, s, 19)
      leases = lease and ''
    elseif string.byte(s, 2) == 3 then
      if not read_leases then read_leases, settle_lease, grant_lease, lease_header, lease_reply = lease_path() end
      local size
      leases, leased, first_end, last_end, size = read_leases(s)
      if leases and #s == size + state_size and find(s, prefix, size + 1, true) == size + 1 then
        newest, expires_at, first, second = unpack(number_format, s, size + 19)
        known = first_end > now and first_end > newest
      end
    end
    if known and earlier then
      local units
      leases, units = settle_lease(leases, earlier, cost)
      if leases and (cost > 0 or lease == LEASE) then leased = leased - units else known = false end
    end
  end
  if known and newest - now <= FAR_BACK and not (holds and first_end <= newest) then
    local at = now > newest and now or newest
    local lag, retry, reset = at - now, 0, 0
    -- `charges` is nil if a number exceeds its range.
    local used, charges, keep
    if kind == COUNTER then
      local elapsed = at % window
      local start = at - elapsed
      if start > newest then
        second = start - window > newest and 0 or first
        first = 0
      end
      local left = window - elapsed
      local product = second * left
      used = first + (product - product % window) / window + leased
      charges = op == CHARGE or (op == CHECK and used + cost <= capacity)
      if product >= TWO53 then
        charges = nil
      elseif charges then
        first = first + cost
        if first > SATURATION then charges = nil end
        used = used + cost
        if used > SATURATION then
          if leases then charges = nil end
          used = SATURATION
        end
        keep = lag + 2 * window
        -- In the next window these units are the previous ones. This is what is left of it when the last unit
        -- stops counting.
        reset = lag + left + window - ceil(window / first) + 1
      else
        if used + cost > capacity and cost <= capacity then
          local level = capacity - cost
          if first > level then
            product = (level + 1) * window
            retry = left + window - ceil(product / first) + 1
          else
            product = (level - first + 1) * window
            local kept = ceil(product / second) - 1
            retry = kept == 0 and left or left > kept and left - kept or 0
          end
          retry = retry + lag
          if product >= TWO53 then charges = nil end
        end
        if first > 0 then
          reset = lag + left + window - ceil(window / first) + 1
        elseif used > 0 then
          local kept = ceil(window / second) - 1
          reset = lag + (kept == 0 and left or left > kept and left - kept or 0)
        end
      end
    elseif kind == GCRA then
      local drained = (at - newest) * drain
      second = drained < second and second - drained or 0
      used = ceil(second / window) + leased
      charges = op == CHARGE or (op == CHECK and used + cost <= capacity)
      if first > 0 then
        charges = nil
      elseif charges then
        second = second + cost * window
        if second >= TWO48 then charges = nil end
        used = used + cost
        reset = ceil(second / drain)
        keep = lag + (reset > window and reset or window)
        reset = lag + reset
      else
        if used + cost > capacity and cost <= capacity then
          local kept = (capacity - cost) * window
          retry = lag + ceil((second - kept) / drain)
          if kept >= TWO53 then charges = nil end
        end
        if used > 0 then reset = lag + ceil(second / drain) end
      end
    else
      local elapsed = at % window
      local left = lag + window - elapsed
      if at - elapsed > newest then first = 0 end
      used = first + leased
      charges = op == CHARGE or (op == CHECK and used + cost <= capacity)
      if charges then
        used = used + cost
        first = first + cost
        if used > SATURATION then charges = nil end
        keep = lag + window
        reset = left
      else
        if used + cost > capacity and cost <= capacity then retry = left end
        if used > 0 then reset = left end
      end
    end
    local granted = 0
    if lease == LEASE and charges then
      leases, granted = grant_lease(leases, capacity - used, least, asked, most, at, ttl, nonce)
      if leases then used = used + granted else charges = nil end
    end
    if leases and leases ~= '' and charges ~= nil then
      -- Nothing is unused before the last lease has been charged, at its end.
      local counted = first
      if kind == COUNTER or kind == FIXED then
        last_end = unpack('>I7', leases, #leases - LEASE_SIZE + 1)
        local start = last_end - last_end % window
        if start > at then counted = 0 end
        for i = 1, #leases, LEASE_SIZE do
          local ends, units = unpack('>I7I5', leases, i)
          if ends >= start then counted = counted + units end
        end
        keep = last_end - now + window
        reset = start + window - now
        if kind == COUNTER then
          keep = keep + window
          reset = reset + window - ceil(window / counted) + 1
        end
        if counted > SATURATION then charges = nil end
      else
        local debt = second
        last_end = at
        for i = 1, #leases, LEASE_SIZE do
          local ends, units = unpack('>I7I5', leases, i)
          local drained = (ends - last_end) * drain
          debt = (drained < debt and debt - drained or 0) + units * window
          last_end = ends
          if drained >= TWO53 or debt >= TWO48 then charges = nil end
        end
        reset = last_end - now + ceil(debt / drain)
        keep = last_end - now + window
        if reset > keep then keep = reset end
      end
      -- The ends of leases change a retry time, too.
      if charges == false and used + cost > capacity and cost <= capacity then charges = nil end
    end
    if holds and charges ~= nil and ((used > 0 and first_end < now + reset) or first_end < now + retry) then
      -- An end changes a wait. The wait is known if all holds have ended by then.
      local last_end, released, before = unpack(MORE_SUMS, header, AT_MORE_SUMS)
      local start, current, previous = at - at % window, first, second
      if kind == GCRA then
        current, previous = 0, second > before and second - before or 0
      else
        local passed = start - (newest_hold - newest_hold % window)
        if passed > 0 then released, before = 0, passed == window and released or 0 end
        current, previous = current > released and current - released or 0, previous > before and previous - before or 0
      end
      local unused_at, known_level, falls_at
      if charges == false then unused_at, known_level, falls_at = unpack(WAITS, header, AT_WAITS) end
      local left, level = start + window - at, 0
      for pass = 1, charges and 1 or 2 do
        local wait = pass == 1 and reset or retry
        if pass == 2 then level = capacity - cost end
        if wait > 0 and first_end < now + wait then
          local product, known = (level + 1) * window, 0
          if charges == false then known = pass == 1 and unused_at or level == known_level and falls_at or 0 end
          wait = 0
          if known > 0 then
            wait = known - at
          elseif kind == GCRA then
            if previous > level * window then wait = ceil((previous - level * window) / drain) end
          elseif current > level then
            wait = kind == COUNTER and left + window - ceil(product / current) + 1 or left
          elseif kind == COUNTER and previous > 0 then
            local kept = ceil((level - current + 1) * window / previous) - 1
            wait = kept == 0 and left or left > kept and left - kept or 0
          end
          wait = wait + lag
          if pass == 1 then reset = wait else retry = wait end
          -- Otherwise the units in use may have fallen to the level before the last end.
          if known == 0 then
            if holds < KNOWS_RELEASED or now + wait <= last_end or product >= TWO53 then charges = nil end
            if kind == GCRA and released > 0 then charges = nil end
          end
        end
      end
    end
    if charges and holds then
      local renews = expires_at < now + keep
      local lifetime = keep + floor(keep / 4)
      if renews then expires_at = now + lifetime end
      header = slice(header, 1, AT_WAITS - 1) .. NO_WAITS .. prefix .. pack(number_format, at, expires_at, first, second)
      local written = try('HSET', key, 'h', header)
      if renews and type(written) ~= 'table' then written = try('PEXPIRE', key, ceil(lifetime / 1000) + grace) end
      error_text = type(written) == 'table' and written.err
      reply = pack(ONE_LIMIT_REPLY, 0, 1 + IN_RESERVED_FORM, at, used, 0, reset)
    elseif charges then
      local written
      if expires_at < now + keep then
        local extra = floor(keep / 4)
        local value = prefix .. pack(number_format, at, now + keep + extra, first, second)
        if leases then value = lease_header(leases) .. value end
        written = try('SET', key, value, 'PX', ceil((keep + extra) / 1000) + grace, s and 'XX' or 'NX')
      elseif leases then
        local value = lease_header(leases) .. prefix .. pack(number_format, at, expires_at, first, second)
        written = try('SET', key, value, 'KEEPTTL')
      else
        written = try('SETRANGE', key, '18', pack(number_format, at, expires_at, first, second))
      end
      error_text = type(written) == 'table' and written.err
      if lease then
        reply = lease_reply(lease == LEASE, earlier, granted, pack('>BI7I7I7I7', 0, at, used, 0, reset))
      elseif written then
        reply = pack(ONE_LIMIT_REPLY, 0, 1, at, used, 0, reset)
      elseif s == false then
        -- The key is a hash, which MGET does not show.
        s, is_hash = {}, true
      end
    elseif charges == false then
      reply = pack(ONE_LIMIT_REPLY, 0, holds and IN_RESERVED_FORM or 0, at, used, retry, reset)
    end
  end
  if holds and reply and KEYS[2] then
    headers = headers or {}
    headers[key] = not error_text and header or nil
  end
until not is_hash
