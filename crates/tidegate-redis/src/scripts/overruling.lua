-- Decisions under an override, as the library's `ruling` tells them: what is in force for a part, and the answer to it.

local BY_LIMITS, BANNED, EXEMPTED = 16, 32, 64

-- Decides what holds for a part: its `rule`, and the `override` if it is not over. A state whose override is over is
-- written as an ordinary one, if it is written.
local function heed(part, state, override)
  if state then state.own_keep = part.policy.shape.keep end
  if not holds(override, part.policy.shape, state) then
    if state then state.override, state.until_ = nil, -1 end
    return
  end
  part.override = override
  if override.kind == OTHER_LIMITS then part.rule = policy_from(override.blob) end
end

local function weigh(part)
  local kind = part.override.kind
  part.exempt = kind == EXEMPT
  if kind ~= OTHER_LIMITS then part.fits = part.exempt end
end

-- How long until a denied request fits under the policy's own limits; nil if it never will.
local function wait_for_own(part, waits)
  local own, longest = part.policy, 0
  local tracks = part.state and tracks_for(part.state, own.shape)
  local reading = { rule = own, tracks = tracks, newest = part.newest, at = part.at, cost = part.cost }
  for i = 1, own.shape.n do
    if part.cost > own.capacity[i] then return nil end
    if tracks then
      local used = USED[tracks[i].kind](tracks[i], part.newest, part.at)
      longest = max(longest, (waits(reading, i, used, true)))
    end
  end
  return longest
end

-- The whole wait of a request that does not fit under other limits: until it does, or until they end and it fits under the
-- policy's own. 0 if there is none.
local function wait_over_end(part, retries, waits)
  local ends, longest = part.override.ends, 0
  for i = 1, part.rule.shape.n do
    longest = longest and part.cost <= part.rule.capacity[i] and max(longest, retries[i])
  end
  if longest and (ends == 0 or now + longest < ends) then return longest end
  local own = ends > 0 and wait_for_own(part, waits)
  return own and min(max(ends - now, own), SATURATION) or 0
end

local function answer(out, part, flags, denied, waits)
  local override = part.override
  if part.exempt then
    out[#out + 1] = pack('>BI7', flags + EXEMPTED, part.at)
    return
  end
  local banned, ends = override.kind == BAN, override.ends
  local told, retries = {}, {}
  for i = 1, part.rule.shape.n do
    local retry, reset = waits(part, i, part.used[i], denied)
    if banned and denied then retry = ends > 0 and min(ends - now, SATURATION) or 0 end
    retries[i], told[i] = retry, pack('>I7I7I7', part.used[i], retry, reset)
  end
  if banned then
    out[#out + 1] = pack('>BI7', flags + BANNED, part.at)
  else
    local whole = denied and wait_over_end(part, retries, waits) or 0
    out[#out + 1] = pack('>BI7', flags + BY_LIMITS, part.at) .. override.blob .. pack('>I7', whole)
  end
  out[#out + 1] = table.concat(told)
end

-- The flags of an inspection, and the limits where they are not the policy's.
local function shown(part, flags)
  local kind = part.override.kind
  if kind == OTHER_LIMITS then return flags + BY_LIMITS, part.override.blob end
  return flags + (kind == BAN and BANNED or EXEMPTED), ''
end

return { heed = heed, weigh = weigh, answer = answer, shown = shown }
