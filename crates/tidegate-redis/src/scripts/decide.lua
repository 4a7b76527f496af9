-- Decides a batch. Each group is one decision: all of its parts are charged, or none.
--
-- KEYS, ARGV and reply: see `call.lua`.
--
-- Most requests are decided in this file, without creating a table or a function. These are checks, peeks and charges
-- of one key under one limit, if the key has no state or one of the policy's own layout, the clock did not go far
-- back, no page of a log is created or dropped, and no number exceeds 2^53. All others are passed on before anything
-- is written: to `hash_log.lua` or `operations.lua`, which decide by the same formulas.
--
-- A key with open holds is decided here, too, if none of them has ended, and if their ends change no wait or all come before
-- it. Its state is then behind the sums of the reservations: see `reservation_records.lua`.
--
-- So is a key with a few open leases of which none has ended, unless they lengthen the wait of a denial; and so are a lease
-- that is granted, and a settle of units. See `leases.lua`.

local replies, answered, groups, group_at, key_index, length = { pack('>I7', now) }, 1, ARGV[2], 1, 1, #ARGV[2]
local current_policy, kind, n, window, buckets, drain, shadow, capacity, prefix, number_format, state_size = 0
local time_width, unit_width, size, time, unit, record, time_room, unit_room = 0, 0
local hash_logs, general, ended
local read_leases, settle_lease, grant_lease, lease_header, lease_reply
-- What was read or written last of keys with open holds: the header of a counter or a debt; or the bytes of a log and the sums
-- before it, with the first end, the time of the newest hold and its units.
local headers
-- The values of the keys. Several keys are read at once, because a read for each costs more than its decision. False
-- is a missing key or one that is not a string; `SET … NX` distinguishes them. Nil is a key that has not been read.
local values = {}
if #KEYS > 3 then
  kind, n = string.byte(ARGV[3], 1, 2)
  if n == 1 and kind ~= BUCKETS then
    values = try('MGET', spread(KEYS))
    if values.err then values = {} end
  end
end

while group_at <= length do
  local group_op, parts, count, deadline, policy, cost = unpack('>BBI2I7I2I7', groups, group_at)
  local expects_reservations = group_op >= EXPECTS_RESERVATIONS
  if expects_reservations then group_op = group_op - EXPECTS_RESERVATIONS end
  local is_reservation = group_op >= RESERVATION
  if is_reservation then group_op = group_op - RESERVATION end
  local no_new_keys = group_op >= NO_NEW_KEYS
  if no_new_keys then group_op = group_op - NO_NEW_KEYS end
  -- A value that was read at the beginning is valid only for the first request on its key, which may change it.
  local is_repeated = group_op >= REPEATED_KEY
  if is_repeated then group_op = group_op - REPEATED_KEY end
  if is_reservation then group_op = group_op + RESERVE end
  local bytes = ARGV[2 + policy]
  if policy ~= current_policy then
    current_policy = policy
    kind, n = string.byte(bytes, 1, 2)
    prefix = 'T\1' .. slice(bytes, 1, 2 + 14 * n)
    if n == 1 then window, buckets, drain, shadow, capacity = unpack('>I6I2I6BI7', bytes, 3) end
    -- Limits on open holds, see `layout.lua`.
    if string.byte(bytes, 3 + 14 * n) > 1 then n = 0 end
    number_format, state_size = nil, nil
    if n == 1 and kind == COUNTER then number_format, state_size = '>I7I7I7I7', 46 end
    if n == 1 and kind == GCRA then number_format, state_size = '>I7I7I6I6', 44 end
    if n == 1 and kind == FIXED then number_format, state_size = '>I7I7I7', 39 end
  end
  if given == 1 then now = deadline end
  -- A settle charges the units that were spent. A lease does so first, if it settles an earlier one.
  local op, least, lease, asked, ttl, nonce, most, earlier = group_op, cost, nil, nil, nil, nil, nil, nil
  if op >= LEASE and op <= SETTLE and n > 0 and (n == 1 or kind == LOG) and kind ~= BUCKETS then
    -- The request is behind the policy and a byte: see `reservation_operations.lua`.
    local at_request, settles = 5 + 21 * n, 1
    if op == LEASE then
      ttl, nonce, most, asked, settles, earlier, cost = unpack('>I7c16I4I7Bc16I7', bytes, at_request)
    else
      earlier, cost = unpack('>c16I7', bytes, at_request)
    end
    if settles == 0 then earlier, cost = nil, 0 end
    if not read_leases then read_leases, settle_lease, grant_lease, lease_header, lease_reply = lease_path() end
    op, lease = CHARGE, op
  end
  for _ = 1, count do
    local key, reply, error_text, hash_header = KEYS[key_index], nil, nil, nil
    if no_new_keys and now <= deadline and (group_op <= CHARGE or group_op == RESERVE or group_op == LEASE) then
      local flags = ''
      for i = key_index, key_index + parts - 1 do flags = flags .. (try('EXISTS', KEYS[i]) == 0 and '\0' or '\1') end
      if find(flags, '\0', 1, true) then reply = '\3' .. flags end
    end
    if reply then
      -- No new key may be created.
    elseif now > deadline then
      reply = '\1'
    elseif parts > 1 or op > CHARGE then
      reply = nil
    elseif number_format then
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
    elseif n == 1 and kind == LOG then
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
    end
    if error_text then
      reply = pack('>BI2', 2, #error_text) .. error_text
    elseif hash_header or (not reply and n > 1 and kind == LOG and parts == 1 and op <= CHARGE) then
      hash_logs = hash_logs or hash_log_path()
      -- A damaged state must not fail the other decisions. `operations.lua` reports what is wrong with it.
      local ok, answer = pcall(hash_logs, bytes, key, op, cost, now, hash_header, lease, least, earlier, asked, ttl, nonce, most)
      reply = ok and answer or nil
    end
    if not reply then
      general, headers = general or general_path(), nil
      local more
      reply, more = general(group_op, parts, group_at + 11, key_index)
      if more > 0 then ended = (ended or 0) + more end
    end
    answered = answered + 1
    replies[answered] = reply
    key_index = key_index + parts
  end
  group_at = group_at + 11 + 16 * parts
end
if ended then replies[answered + 1] = pack('>I4', ended) end
return table.concat(replies)
