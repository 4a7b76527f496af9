-- Decides on a log of one limit that is a string: see `STRING_LOG` in `call.lua`.
--
-- KEYS   the key
-- ARGV   not read
-- reply  to one group, as in `call.lua`; nil, before anything is written, in every other case. Then `hash_header` is field "h"
--        if the key is a hash that `hash_log.lua` may decide on

local s, sums, first_end, newest_hold, held_at_newest = values[key_index], nil, nil, nil, nil
local leases, leased, last_end = lease and '', 0, 0
local known = is_repeated and headers and headers[key]
if not known and expects_reservations then
  hash_header = try('HGET', key, 'h')
  if type(hash_header) ~= 'string' then hash_header = nil end
end
if hash_header then
  s = false
elseif known and type(known) == 'table' and known[3] > now then
  s, sums, first_end, newest_hold, held_at_newest = spread(known)
elseif is_repeated or s == nil then
  -- MGET returns false for a hash, where GET would create an error.
  s = try('MGET', key)
  if not s.err then s = s[1] end
end
if s == false then
  hash_header = hash_header or try('HGET', key, 'h')
  if hash_header == false then
    hash_header = nil
    if lease then
      -- The key does not exist, or is not one of Tidegate.
    elseif op == CHARGE or (op == CHECK and cost <= capacity) then
      local width = 1
      while 2 * window >= 256 ^ width do width = width + 1 end
      if cost < 65536 then
        local extra = floor(window / 4)
        local written = try('SET', key, prefix .. pack(STRING_LOG, now + window + extra, now, width, 2, 0)
          .. pack('>I' .. width .. 'I2', 0, cost), 'PX', ceil((window + extra) / 1000) + grace, 'NX')
        if written then
          error_text = written.err
          reply = pack(ONE_LIMIT_REPLY, 0, 1, now, cost, 0, window)
        end
      end
    elseif try('EXISTS', key) == 0 then
      reply = pack(ONE_LIMIT_REPLY, 0, 0, now, 0, 0, 0)
    end
  elseif type(hash_header) ~= 'string' then
    hash_header = nil
  elseif string.byte(hash_header, AT_STATE) == 0 then
    local mark, flags, ends, hold, held = unpack(FIRST_SUMS, hash_header)
    local is_used = ends ~= NEVER or now - hold < RESERVED_FOR
    if mark == IS_RESERVED and flags % HAS_MORE == 0 and ends > now and is_used then
      s, sums, first_end = slice(hash_header, AT_STATE + 1), slice(hash_header, 1, AT_STATE), ends
      newest_hold, held_at_newest = hold, held
      if KEYS[2] then
        headers = headers or {}
        headers[key] = { s, sums, first_end, newest_hold, held_at_newest }
      end
    end
    if mark == IS_RESERVED then hash_header = nil end
  end
end
if type(s) == 'string' and not sums and (lease or string.byte(s, 2) == 3) then
  if string.byte(s, 2) == 3 then
    if not read_leases then read_leases, settle_lease, grant_lease, lease_header, lease_reply = lease_path() end
    local size
    leases, leased, first_end, last_end, size = read_leases(s)
    s = leases and first_end > now and slice(s, size + 1)
  end
  if s and earlier then
    local units
    leases, units = settle_lease(leases, earlier, cost)
    if leases and (cost > 0 or lease == LEASE) then leased = leased - units else s = nil end
  end
elseif lease then
  s = nil
end
if type(s) == 'string' and #s > STRING_LOG_HEADER_SIZE and find(s, prefix, 1, true) == 1 then
  local expires_at, base, its_time_width, its_unit_width, dropped_units = unpack(STRING_LOG, s, 19)
  if its_time_width ~= time_width or its_unit_width ~= unit_width then
    time_width, unit_width = its_time_width, its_unit_width
    size, time, unit = time_width + unit_width, '>I' .. time_width, '>I' .. unit_width
    record = time .. 'I' .. unit_width
    time_room, unit_room = 256 ^ time_width, math.min(256 ^ unit_width, TWO53)
  end
  local entries, last = (#s - STRING_LOG_HEADER_SIZE) / size, #s - size + 1
  if time_width > 0 and time_width < 8 and unit_width > 0 and unit_width < 8 and entries == floor(entries) then
    local last_time, total = unpack(record, s, last)
    local newest = base + last_time
    -- Units of holds that may be given back from the newest entry before it expires.
    local held = 0
    if sums and newest_hold == newest and first_end < newest + window then held = held_at_newest end
    if newest - now <= FAR_BACK and not (first_end and first_end <= newest) then
      local at = now > newest and now or newest
      local horizon, skipped, before = at - window - base, 0, dropped_units
      if unpack(time, s, FIRST_RECORD) <= horizon then
        local step, above = 1, 0
        skipped = 1
        while skipped + step <= entries and unpack(time, s, FIRST_RECORD + (skipped + step - 1) * size) <= horizon do
          skipped, step = skipped + step, step * 2
        end
        above = skipped + step > entries and entries + 1 or skipped + step
        while above - skipped > 1 do
          local middle = floor((skipped + above) / 2)
          if unpack(time, s, FIRST_RECORD + (middle - 1) * size) <= horizon then skipped = middle else above = middle end
        end
        before = unpack(unit, s, FIRST_RECORD + (skipped - 1) * size + time_width)
      end
      local used, lag = total - before + leased, at - now
      if op == CHARGE or (op == CHECK and used + cost <= capacity) then
        local kept, keep, written = entries - skipped, lag + window, nil
        if newest == at and kept > 0 then kept = kept - 1 end
        total = total + cost
        if newest == at and held > 0 then
          -- Only units that stay determine the reset time.
          local earlier = entries > 1 and unpack(unit, s, last - size + time_width) or dropped_units
          if total - earlier <= held then kept = PAGE end
        end
        local granted, reset = 0, keep
        if lease then
          -- An entry without units is not needed once it is not the newest one.
          local earlier_units = entries > 1 and unpack(unit, s, last - size + time_width) or dropped_units
          if kept == entries - skipped and kept > 0 and total - cost == earlier_units then kept = kept - 1 end
          if lease == LEASE then
            leases, granted = grant_lease(leases, capacity - used - cost, least, asked, most, at, ttl, nonce)
            if not leases then kept = PAGE end
          end
        end
        if leases and leases ~= '' then
          last_end = unpack('>I7', leases, #leases - LEASE_SIZE + 1)
          keep = last_end - now + window
          reset = keep
        end
        if kept < PAGE and (kept == 0 or at - base < time_room) and total < unit_room and used + cost <= SATURATION then
          if sums then
            local value, renews = s, expires_at < now + keep
            if newest == at or entries >= PAGE or 2 * skipped > entries or renews then
              if kept == 0 then base = at end
              if renews then expires_at = now + keep + floor(keep / 4) end
              local first = FIRST_RECORD + skipped * size
              value = prefix .. pack(STRING_LOG, expires_at, base, time_width, unit_width, before)
                .. slice(s, first, first + kept * size - 1)
            end
            headers = nil
            local header = slice(sums, 1, AT_WAITS - 1) .. NO_WAITS .. value .. pack(record, at - base, total)
            written = try('HSET', key, 'h', header)
            if renews and type(written) ~= 'table' then
              written = try('PEXPIRE', key, ceil((keep + floor(keep / 4)) / 1000) + grace)
            end
          elseif lease or newest == at or entries >= PAGE or 2 * skipped > entries or expires_at - now < keep then
            -- Rewrites the value without the old entries, and renews the expiry if needed.
            if kept == 0 then base = at end
            local extra, first = floor(keep / 4), FIRST_RECORD + skipped * size
            local renews = not lease or expires_at - now < keep
            if renews then expires_at = now + keep + extra end
            local value = prefix .. pack(STRING_LOG, expires_at, base, time_width, unit_width, before)
              .. slice(s, first, first + kept * size - 1) .. pack(record, at - base, total)
            if leases then value = lease_header(leases) .. value end
            if renews then
              written = try('SET', key, value, 'PX', ceil((keep + extra) / 1000) + grace)
            else
              written = try('SET', key, value, 'KEEPTTL')
            end
          else
            written = try('APPEND', key, pack(record, at - base, total))
          end
          error_text = type(written) == 'table' and written.err
          if lease then
            local answer = pack('>BI7I7I7I7', 0, at, used + cost + granted, 0, reset)
            reply = lease_reply(lease == LEASE, earlier, granted, answer)
          else
            reply = pack(ONE_LIMIT_REPLY, 0, sums and 1 + IN_RESERVED_FORM or 1, at, used + cost, 0, reset)
          end
        end
      elseif used == 0 then
        reply = pack(ONE_LIMIT_REPLY, 0, sums and IN_RESERVED_FORM or 0, at, 0, 0, 0)
      else
        local retry, reset = 0, newest - now + window
        local unused_at, level, falls_at
        if sums then unused_at, level, falls_at = unpack(WAITS, sums, AT_WAITS) end
        if total <= held + (entries > 1 and unpack(unit, s, last - size + time_width) or dropped_units) then
          -- Holds may give back all units of the newest entry.
          reset = sums and unused_at > 0 and unused_at - now
        end
        if leases then reset = last_end - now + window end
        if used + cost > capacity and cost <= capacity and leased + cost > capacity then
          -- Leases count longer than any entry.
          retry = nil
        elseif used + cost > capacity and cost <= capacity then
          -- Finds the entry after which enough units have left the window.
          local units, step, above = total + leased + cost - capacity, 1, 0
          local offset = FIRST_RECORD + time_width - size
          while skipped + step <= entries and unpack(unit, s, offset + (skipped + step) * size) < units do
            skipped, step = skipped + step, step * 2
          end
          above = skipped + step > entries and entries + 1 or skipped + step
          while above - skipped > 1 do
            local middle = floor((skipped + above) / 2)
            if unpack(unit, s, offset + middle * size) < units then skipped = middle else above = middle end
          end
          retry = base + unpack(time, s, FIRST_RECORD + skipped * size) - now + window
        end
        if sums and retry and first_end < now + retry then
          retry = level == capacity - cost and falls_at > 0 and falls_at - now
        end
        if retry and reset then
          reply = pack(ONE_LIMIT_REPLY, 0, sums and IN_RESERVED_FORM or 0, at, used, retry, reset)
        end
      end
    end
  end
end
