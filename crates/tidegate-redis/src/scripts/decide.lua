-- Decides a batch. Each group of it is one decision: all of its parts are charged, or none is.
--
--   KEYS      the key of each part, in order
--   ARGV[1]   whether times are given, and by how many milliseconds keys outlive their use
--   ARGV[2]   the groups: operation, number of parts, deadline in server time (or the time, if given); of each part: the
--             number of its policy, the cost and, for a refund, the time it was charged at
--   ARGV[3…]  the policies: shape, mode, and the capacity of each limit
--   reply     the time, and of each group a status. 0: of each part, whether it was charged (1), found (2), returned (4) or
--             joined (8), the time it was read as, and of each limit the units in use after the decision, the wait until it
--             fits (0 if none) and the wait until nothing is in use. 1: too late, nothing was done. 2: an error's text.

local thorough

local replies = { pack('>I7', now) }
local groups, at, key, length = ARGV[2], 1, 0, #ARGV[2]
while at <= length do
  local op, count, deadline
  op, count, deadline, at = unpack('>BBI7', groups, at)
  if given == 1 then now = deadline end
  local number, cost, charged_at
  local reply
  if now > deadline then
    reply = '\1'
    key, at = key + count, at + 16 * count
  elseif count == 1 and op <= CHARGE_OP then
    number, cost = unpack('>I2I7', groups, at)
    local policy = policy_of(number)
    local fast = FAST[policy.shape.kind]
    reply = fast and fast(policy, KEYS[key + 1], op, cost)
    if reply then key, at = key + 1, at + 16 end
  end
  if not reply then
    local parts = {}
    for i = 1, count do
      number, cost, charged_at, at = unpack('>I2I7I7', groups, at)
      key = key + 1
      parts[i] = { key = KEYS[key], policy = policy_of(number), cost = cost, charged_at = charged_at }
    end
    thorough = thorough or everything()
    local out = {}
    local fine, problem = pcall(thorough, out, parts, op)
    if fine then
      reply = '\0' .. table.concat(out)
    else
      local text = type(problem) == 'table' and problem.err or tostring(problem)
      reply = pack('>BI2', 2, #text) .. text
    end
  end
  replies[#replies + 1] = reply
end
return table.concat(replies)
