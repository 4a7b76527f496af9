-- Executes one group.
--
-- KEYS   the keys of the parts
-- ARGV   the parts, and their policies
-- reply  the reply to one group, as in `call.lua`; and the number of reservations that ended by themselves

local REFUND_OP, RESET, INSPECT, OVERRIDE_OP, LIST_OP, RESERVE = 3, 4, 5, 6, 7, 8
-- Operations other than decisions. Those on overrides and on reservations are created when one is requested.
local OTHERS = { [REFUND_OP] = refund_part, [RESET] = reset_part, [INSPECT] = inspect_part }

-- `at` is where the parts begin in ARGV[2], `position` is the number of the first key.
return function(op, count, at, position)
  local parts = {}
  for i = 1, count do
    local number, cost, charged_at
    number, cost, charged_at, at = unpack('>I2I7I7', ARGV[2], at)
    local blob = ARGV[2 + number]
    parts[i] = { key = KEYS[position + i - 1], policy = policy_from(blob), blob = blob, cost = cost, charged_at = charged_at }
  end
  if op > INSPECT and not OTHERS[op] then
    if op >= RESERVE then
      OTHERS[op] = reservation_operations()
    else
      OTHERS[OVERRIDE_OP], OTHERS[LIST_OP] = overrides().operations(), overrides().list()
    end
  end
  local out = { '\0' }
  ended_reservations = 0
  local ok, problem = pcall(OTHERS[op] or decide, out, parts, op)
  if ok then return table.concat(out), ended_reservations end
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  return pack('>BI2', 2, #text) .. text, ended_reservations
end
