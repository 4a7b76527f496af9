-- What a call asks: the time, and the policies that its groups name by number.

local CHECK, PEEK, CHARGE_OP, REFUND_OP, RESET, INSPECT = 0, 1, 2, 3, 4, 5
local FAR_BACK = 60000000
local MOST_LISTED = 1000

local given, grace = unpack('>BI4', ARGV[1])
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

local POLICIES = {}

local function policy_of(number)
  local policy = POLICIES[number]
  if policy then return policy end
  local blob = ARGV[2 + number]
  local n = unpack('>B', blob, 2)
  local size = 2 + 14 * n
  policy = { shape = shape_of(slice(blob, 1, size)), shadow = unpack('>B', blob, size + 1) == 1 }
  policy.capacity = { unpack('>' .. string.rep('I7', n), blob, size + 2) }
  POLICIES[number] = policy
  return policy
end
