-- Decisions under an override, as in the library.
--
-- KEYS   not read
-- ARGV   not read
-- reply  of one part, as in `call.lua`

local OTHER_LIMITS_FLAG, BAN_FLAG, EXEMPT_FLAG = 16, 32, 64

-- Finds the policy that applies to a part (`in_force`), and its `override` unless that has ended. If the override has
-- ended, the next write of the state removes it.
local function apply(part, state, override)
  if state then state.own_keep = part.policy.layout.keep end
  if not is_active(override, part.policy.layout, state) then
    if state then state.override, state.expires_at = nil, -1 end
    return
  end
  part.override = override
  if override.kind == OTHER_LIMITS then part.in_force = policy_from(override.blob) end
end

local function evaluate(part)
  local kind = part.override.kind
  part.exempt = kind == EXEMPT
  if kind ~= OTHER_LIMITS then part.fits = part.exempt end
end

-- Returns the wait until a denied request fits under the policy's own limits, or nil if it never does.
local function wait_for_own(part, waits, used_under)
  local own, longest = part.policy, 0
  local limits = part.state and in_policy_order(own, limits_for(part.state, own.layout))
  local reading = { in_force = own, state = part.state, limits = limits, newest = part.newest, at = part.at, cost = part.cost }
  for i = 1, own.n do
    if part.cost > own.capacity[i] then return nil end
    if limits then longest = max(longest, (waits(reading, i, used_under(reading, i), true))) end
  end
  return longest
end

-- Returns the whole wait of a request that does not fit under other limits: until it does, or until they end and it
-- fits under the policy's own limits. Returns 0 if it never fits.
local function wait_over_end(part, retries, waits, used_under)
  local ends, longest = part.override.ends, 0
  for i = 1, part.in_force.n do
    longest = longest and part.cost <= part.in_force.capacity[i] and max(longest, retries[i])
  end
  if longest and (ends == 0 or now + longest < ends) then return longest end
  local own = ends > 0 and wait_for_own(part, waits, used_under)
  return own and min(max(ends - now, own), SATURATION) or 0
end

local function add_reply(out, part, flags, denied, waits, used_under)
  local override = part.override
  if part.exempt then
    out[#out + 1] = pack('>BI7', flags + EXEMPT_FLAG, part.at)
    return
  end
  local banned, ends = override.kind == BAN, override.ends
  local records, retries = {}, {}
  for i = 1, part.in_force.n do
    local retry, reset = waits(part, i, part.used[i], denied)
    if banned and denied then retry = ends > 0 and min(ends - now, SATURATION) or 0 end
    retries[i], records[i] = retry, pack('>I7I7I7', part.used[i], retry, reset)
  end
  if banned then
    out[#out + 1] = pack('>BI7', flags + BAN_FLAG, part.at)
  else
    local whole_wait = denied and wait_over_end(part, retries, waits, used_under) or 0
    out[#out + 1] = pack('>BI7', flags + OTHER_LIMITS_FLAG, part.at) .. override.blob .. pack('>I7', whole_wait)
  end
  out[#out + 1] = table.concat(records)
end

-- Returns the flags of an inspection, and the limits of the override if it has any.
local function inspected(part, flags)
  local kind = part.override.kind
  if kind == OTHER_LIMITS then return flags + OTHER_LIMITS_FLAG, part.override.blob end
  return flags + (kind == BAN and BAN_FLAG or EXEMPT_FLAG), ''
end

return { apply = apply, evaluate = evaluate, add_reply = add_reply, inspected = inspected }
