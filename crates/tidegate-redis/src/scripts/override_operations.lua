-- Sets, removes and shows the override of a key.
--
-- KEYS   the key
-- ARGV   after the bytes of a policy, a step (1): 1 set, 2 remove, 3 show; to set: the end of the override or 0 (7),
--        and its record from the kind on
-- reply  a length (4), and that many bytes: 1 if it was done, or 0 if the override would have ended already (1); the
--        time (7); the record of the override that was active before

local SET, REMOVE = 1, 2

local function write(key, state, override, keep)
  if state then
    -- The expiry depends on the override, too, so it must be written again.
    state.override, state.expires_at, state.own_keep = override, -1, keep
    ensure_writable(state)
    save(state, now, grace)
  elseif override then
    checked(try('HSET', key, 'h', override.bytes))
    renew_expiry(key, override, 0, now, grace)
  else
    checked(try('DEL', key))
  end
end

return function(out, parts)
  local part = parts[1]
  local request_at = part.policy.size + 1
  local step = unpack('>B', part.blob, request_at)
  local state, problem, current = read_state(part.key, part.policy.layout, now)
  if problem then error(problem, 0) end
  local before, done = '', 1
  if current and is_active(current, part.policy.layout, state) then before = current.bytes end
  if step == SET then
    local ends = unpack('>I7', part.blob, request_at + 1)
    if ends > 0 and ends <= now then
      done = 0
    else
      local record = 'O' .. pack('>BI7', VERSION, now) .. slice(part.blob, request_at + 1)
      local override = read_override(record)
      write(part.key, state, override, part.policy.layout.keep)
    end
  elseif step == REMOVE and current then
    write(part.key, state, nil, part.policy.layout.keep)
  end
  out[#out + 1] = pack('>I4BI7', 8 + #before, done, now) .. before
end
