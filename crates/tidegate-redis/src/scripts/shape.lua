-- A shape: the algorithm and how each limit divides time, as bytes that begin every state and every policy:
-- kind, number of limits, and of each the window (6 bytes), the buckets (2) and what drains in a window (6).

local LOG, COUNTER, BUCKETS, FIXED, GCRA = 1, 2, 3, 4, 5
local VERSION = 1

local SHAPES = {}

local function shape_of(bytes)
  local shape = SHAPES[bytes]
  if shape then return shape end
  local kind, n = unpack('>BB', bytes)
  shape = { bytes = bytes, prefix = 'T' .. pack('>B', VERSION) .. bytes, kind = kind, n = n, w = {}, nb = {}, drain = {}, longest = 0, longest_at = 1, keep = 0 }
  for i = 1, n do
    local w, nb, drain = unpack('>I6I2I6', bytes, 3 + (i - 1) * 14)
    shape.w[i], shape.nb[i], shape.drain[i] = w, nb, drain
    if w > shape.longest then shape.longest, shape.longest_at = w, i end
    -- How long after the newest charge something may still be in use; a debt tells itself.
    local keep = w
    if kind == COUNTER then keep = 2 * w elseif kind == BUCKETS then keep = w + floor(w / nb) + 2 end
    shape.keep = max(shape.keep, keep)
  end
  local per_limit = { [COUNTER] = 'I7I7', [FIXED] = 'I7', [GCRA] = 'I6I6' }
  shape.plain = per_limit[kind]
  if shape.plain then shape.plain = '>I7I7' .. string.rep(shape.plain, n) end
  SHAPES[bytes] = shape
  return shape
end

-- A policy: its shape, its mode and the capacity of each limit.
local POLICIES = {}

local function policy_from(blob)
  local policy = POLICIES[blob]
  if policy then return policy end
  local n = unpack('>B', blob, 2)
  local size = 2 + 14 * n
  policy = { shape = shape_of(slice(blob, 1, size)), shadow = unpack('>B', blob, size + 1) == 1 }
  policy.capacity = { unpack('>' .. string.rep('I7', n), blob, size + 2) }
  POLICIES[blob] = policy
  return policy
end
