-- Sets, lifts and shows the override of a key. What is asked follows the policy's bytes: a step, and to set one until when
-- it holds and the rest of its record from the kind on.
--
--   reply   a length, and that many bytes: whether it was done (0: it would be over already), the time, and the record of the
--           override that held

local SET, LIFT = 1, 2

local function write(key, state, override, keep)
  if state then
    -- Not as long as its state lives by itself.
    state.override, state.until_, state.own_keep = override, -1, keep
    ensure_writable(state)
    save(state, now, grace)
  elseif override then
    checked(try('HSET', key, 'h', override.bytes))
    live_on(key, override, 0, now, grace)
  else
    checked(try('DEL', key))
  end
end

return function(out, parts)
  local part = parts[1]
  local asked = 4 + 21 * part.policy.shape.n
  local step = unpack('>B', part.blob, asked)
  local state, problem, held = read_state(part.key, part.policy.shape, now)
  if problem then error(problem, 0) end
  local before, done = '', 1
  if held and holds(held, part.policy.shape, state) then before = held.bytes end
  if step == SET then
    local ends = unpack('>I7', part.blob, asked + 1)
    if ends > 0 and ends <= now then
      done = 0
    else
      local record = 'O' .. pack('>BI7', VERSION, now) .. slice(part.blob, asked + 1)
      local override = override_from(record)
      override.is_new = true
      write(part.key, state, override, part.policy.shape.keep)
    end
  elseif step == LIFT and held then
    write(part.key, state, nil, part.policy.shape.keep)
  end
  out[#out + 1] = pack('>I4BI7', 8 + #before, done, now) .. before
end
