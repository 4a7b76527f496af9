-- Decides a batch. Each group is one decision: all of its parts are charged, or none. `script.rs` has the loop over the groups and
-- their keys.
--
-- KEYS, ARGV and reply: see `call.lua`.
--
-- Most requests are decided by `decide_numbers.lua` and `decide_log.lua`, without creating a table or a function. These are
-- checks, peeks and charges of one key under one limit, if the key has no state or one of the policy's own layout, the clock
-- did not go far back, no page of a log is created or dropped, and no number exceeds 2^53. All others are passed on before
-- anything is written: to `hash_log.lua` or `operations.lua`, which decide by the same formulas.
--
-- A key with open holds is decided there, too, if none of them has ended, and if their ends change no wait or all come before
-- it. Its state is then behind the sums of the reservations: see `reservation_records.lua`.
--
-- So is a key with a few open leases of which none has ended, unless they lengthen the wait of a denial; and so are a lease
-- that is granted, and a settle of units. See `leases.lua`.

local replies, answered, groups, group_at, key_index, length = { pack('>I7', now) }, 1, ARGV[2], 1, 1, #ARGV[2]
local current_policy, kind, n, window, buckets, drain, shadow, capacity, prefix, number_format, state_size = 0
local time_width, unit_width, size, time, unit, record, time_room, unit_room = 0, 0
local hash_logs, general, ended
local read_leases, settle_lease, grant_lease, lease_header, lease_reply
-- What was read or written last of keys with open holds: the header of a counter or a debt; or the bytes of a log and the sums
-- before it, with the first end, the time of the newest hold and its units.
local headers
-- The values of the keys. Several keys are read at once, because a read for each costs more than its decision. False
-- is a missing key or one that is not a string; `SET … NX` distinguishes them. Nil is a key that has not been read.
local values = {}
if #KEYS > 3 then
  kind, n = string.byte(ARGV[3], 1, 2)
  if n == 1 and kind ~= BUCKETS then
    values = try('MGET', spread(KEYS))
    if values.err then values = {} end
  end
end
