-- The storage layout of a policy: its algorithm, and how each limit divides time. Every state and every policy begins
-- with it: algorithm (1), number of limits (1), and for each limit its window (6), its buckets (2) and its drain in a
-- window (6).
--
-- KEYS   not read
-- ARGV   not read
-- reply  none: functions that read layouts and policies

local LOG, COUNTER, BUCKETS, FIXED, GCRA = 1, 2, 3, 4, 5
-- A limit on the units in open holds.
local IN_FLIGHT = 6
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
  -- A policy without windows has only the time of the newest charge.
  layout.numbers = n == 0 and {} or NUMBERS[kind]
  if layout.numbers then layout.number_format = '>I7I7' .. string.rep(layout.numbers.format or '', n) end
  LAYOUTS[bytes] = layout
  return layout
end

-- A policy: its layout, its mode (1 if it is in shadow mode, plus 2 if it limits open holds) and the capacity of each limit
-- with a window. If it limits open holds: the number of these limits (1), and for each its place among all limits (1) and its
-- capacity (7).
local POLICIES = {}
local SHADOW, HAS_IN_FLIGHT = 1, 2

-- Reads the policy at the beginning of `bytes`.
local function policy_from(bytes)
  local n = unpack('>B', bytes, 2)
  local layout_size = 2 + 14 * n
  local mode = unpack('>B', bytes, layout_size + 1)
  local size = layout_size + 1 + 7 * n
  local others = mode >= HAS_IN_FLIGHT and unpack('>B', bytes, size + 1) or 0
  if others > 0 then size = size + 1 + 8 * others end
  local own = slice(bytes, 1, size)
  local policy = POLICIES[own]
  if policy then return policy end
  local windowed = { unpack('>' .. string.rep('I7', n), bytes, layout_size + 2) }
  policy = { layout = layout_of(slice(bytes, 1, layout_size)), shadow = mode % 2 == SHADOW, size = size, n = n + others }
  policy.capacity = windowed
  if others > 0 then
    -- For each limit, the number of its state, or false if it limits open holds.
    policy.capacity, policy.state_of = {}, {}
    for i = 1, others do
      local place, capacity = unpack('>BI7', bytes, layout_size + 2 + 7 * n + 1 + (i - 1) * 8)
      policy.capacity[place], policy.state_of[place] = capacity, false
    end
    local state = 0
    for i = 1, policy.n do
      if policy.state_of[i] == nil then
        state = state + 1
        policy.capacity[i], policy.state_of[i] = windowed[state], state
      end
    end
  end
  POLICIES[own] = policy
  return policy
end

-- Returns limits in the order of a policy. Those on open holds have no state.
local function in_policy_order(policy, limits)
  if not policy.state_of then return limits end
  local ordered = {}
  for i = 1, policy.n do
    local state = policy.state_of[i]
    ordered[i] = state and limits[state] or { kind = IN_FLIGHT }
  end
  return ordered
end
