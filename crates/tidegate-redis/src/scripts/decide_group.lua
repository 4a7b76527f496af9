-- Reads the next group of requests: its operation, its policy, and the request of a lease or a settle. Then it is decided for one
-- key after the other.
--
-- KEYS   not read
-- ARGV   the groups and the policies, as in `call.lua`
-- reply  none. `decide.lua` has the names that are not defined here

local group_op, parts, count, deadline, policy, cost = unpack('>BBI2I7I2I7', groups, group_at)
local expects_reservations = group_op >= EXPECTS_RESERVATIONS
if expects_reservations then group_op = group_op - EXPECTS_RESERVATIONS end
local is_reservation = group_op >= RESERVATION
if is_reservation then group_op = group_op - RESERVATION end
local no_new_keys = group_op >= NO_NEW_KEYS
if no_new_keys then group_op = group_op - NO_NEW_KEYS end
-- A value that was read at the beginning is valid only for the first request on its key, which may change it.
local is_repeated = group_op >= REPEATED_KEY
if is_repeated then group_op = group_op - REPEATED_KEY end
if is_reservation then group_op = group_op + RESERVE end
local bytes = ARGV[2 + policy]
if policy ~= current_policy then
  current_policy = policy
  kind, n = string.byte(bytes, 1, 2)
  prefix = 'T\1' .. slice(bytes, 1, 2 + 14 * n)
  if n == 1 then window, buckets, drain, shadow, capacity = unpack('>I6I2I6BI7', bytes, 3) end
  -- Limits on open holds, see `layout.lua`.
  if string.byte(bytes, 3 + 14 * n) > 1 then n = 0 end
  number_format, state_size = nil, nil
  if n == 1 and kind == COUNTER then number_format, state_size = '>I7I7I7I7', 46 end
  if n == 1 and kind == GCRA then number_format, state_size = '>I7I7I6I6', 44 end
  if n == 1 and kind == FIXED then number_format, state_size = '>I7I7I7', 39 end
end
if given == 1 then now = deadline end
-- A settle charges the units that were spent. A lease does so first, if it settles an earlier one.
local op, least, lease, asked, ttl, nonce, most, earlier = group_op, cost, nil, nil, nil, nil, nil, nil
if op >= LEASE and op <= SETTLE and n > 0 and (n == 1 or kind == LOG) and kind ~= BUCKETS then
  -- The request is behind the policy and a byte: see `reservation_operations.lua`.
  local at_request, settles = 5 + 21 * n, 1
  if op == LEASE then
    ttl, nonce, most, asked, settles, earlier, cost = unpack('>I7c16I4I7Bc16I7', bytes, at_request)
  else
    earlier, cost = unpack('>c16I7', bytes, at_request)
  end
  if settles == 0 then earlier, cost = nil, 0 end
  if not read_leases then read_leases, settle_lease, grant_lease, lease_header, lease_reply = lease_path() end
  op, lease = CHARGE, op
end
