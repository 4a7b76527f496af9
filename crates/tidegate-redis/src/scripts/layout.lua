-- The storage layout of a policy: its algorithm, and how each limit divides time. Every state and every policy begins
-- with it: algorithm (1), number of limits (1), and for each limit its window (6), its buckets (2) and its drain in a
-- window (6).
--
-- KEYS   not read
-- ARGV   not read
-- reply  none: functions that read layouts and policies

local LOG, COUNTER, BUCKETS, FIXED, GCRA = 1, 2, 3, 4, 5
local VERSION = 1
-- The numbers of each limit in a state that is a string of numbers, and the format of them.
local NUMBERS = {
  [COUNTER] = { format = 'I7I7', 'current', 'previous' },
  [FIXED] = { format = 'I7', 'current' },
  [GCRA] = { format = 'I6I6', 'high', 'low' },
}

local LAYOUTS = {}

local function layout_of(bytes)
  local layout = LAYOUTS[bytes]
  if layout then return layout end
  local kind, n = unpack('>BB', bytes)
  layout = {
    bytes = bytes, prefix = 'T' .. pack('>B', VERSION) .. bytes, kind = kind, n = n, window = {}, buckets = {}, drain = {},
    longest = 0, longest_index = 1, keep = 0,
  }
  for i = 1, n do
    local window, buckets, drain = unpack('>I6I2I6', bytes, 3 + (i - 1) * 14)
    layout.window[i], layout.buckets[i], layout.drain[i] = window, buckets, drain
    if window > layout.longest then layout.longest, layout.longest_index = window, i end
    -- How long after the newest charge units may be in use. For gcra, the debt determines it.
    local keep = window
    if kind == COUNTER then keep = 2 * window elseif kind == BUCKETS then keep = window + floor(window / buckets) + 2 end
    layout.keep = max(layout.keep, keep)
  end
  layout.numbers = NUMBERS[kind]
  if layout.numbers then layout.number_format = '>I7I7' .. string.rep(layout.numbers.format, n) end
  LAYOUTS[bytes] = layout
  return layout
end

-- A policy: its layout, its mode and the capacity of each limit.
local POLICIES = {}

local function policy_from(bytes)
  local policy = POLICIES[bytes]
  if policy then return policy end
  local n = unpack('>B', bytes, 2)
  local size = 2 + 14 * n
  policy = { layout = layout_of(slice(bytes, 1, size)), shadow = unpack('>B', bytes, size + 1) == 1 }
  policy.capacity = { unpack('>' .. string.rep('I7', n), bytes, size + 2) }
  POLICIES[bytes] = policy
  return policy
end
