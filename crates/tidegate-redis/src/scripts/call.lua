-- The arguments of a call, the reply, and the time. This file comes first; every other file uses its names.
--
--   KEYS      the key of each part, in order
--   ARGV[1]   whether times are given (1 byte); the milliseconds that keys live longer than needed (4)
--   ARGV[2]   the groups; equal groups in a row are written once:
--               operation (1): 0 check, 1 peek, 2 charge, 3 refund, 4 reset, 5 inspect, 6 override, 7 override list;
--                 32 reserve, 33 commit, 34 renew, 35 lease, 36 settle; plus 8 if a key of the group also occurs earlier
--                 in the call; plus 16 if it may not create keys;
--                 plus 64 if the key of a decision had the form of keys with reservations when the caller saw it last
--               number of parts of a group (1), number of groups (2), deadline in server time or the given time (7)
--               for each part: number of its policy (2), cost (7), time of the charge that a refund returns (7)
--   ARGV[3…]  the policies: see `layout.lua`; then the request of an operation on a reservation, on an override or on a
--             list of overrides
--   reply     the time (7), and for each group a status (1):
--               0  done. For each part of a decision or a refund:
--                    flags (1): 1 charged, 2 the key has the form of keys with reservations, 4 returned, 8 joined with the
--                      newest entry; 16 other limits, 32 ban, 64 exempt, if an override decided
--                    the time at which the key was read (7)
--                    under other limits: those limits as a policy, and the whole wait of a denial (7), or 0
--                    for each limit, unless the key is exempt: units in use after the decision (7), wait until the
--                      cost fits (7), or 0, and wait until nothing is in use (7). Under a ban the first wait is the
--                      time until the ban ends, or 0 if it has no end
--                  `operations.lua` and the files on reservations and overrides describe the replies to other operations
--               1  too late; nothing was done
--               2  an error: length (2) and text
--               3  no new key may be created; nothing was done. For each part 1 if its key exists, or 0 (1)
--             then the number of reservations that ended by themselves (4), if there are any

local spread = unpack
local pack, unpack, slice, find, floor, ceil = struct.pack, struct.unpack, string.sub, string.find, math.floor, math.ceil
local call, try = redis.call, redis.pcall
local SATURATION, TWO53, TWO48 = 9000000000000000, 9007199254740992, 281474976710656
local FAR_BACK = 60000000
local PAGE = 128
local CHECK, PEEK, CHARGE, REPEATED_KEY, NO_NEW_KEYS, RESERVATION, EXPECTS_RESERVATIONS = 0, 1, 2, 8, 16, 32, 64
-- The flag of a reply on a key in the form of `reservation_records.lua`.
local IN_RESERVED_FORM = 2
-- Operations on reservations begin with this number in the script.
local RESERVE, LEASE, SETTLE = 8, 11, 12
-- The number of bytes of a lease in front of a state: see `leases.lua`.
local LEASE_SIZE = 36
local LOG, COUNTER, BUCKETS, FIXED, GCRA = 1, 2, 3, 4, 5
-- A log that is a string: layout, expiry of the key, base, widths of times and units, units before the first record;
-- records.
local STRING_LOG, STRING_LOG_HEADER_SIZE, FIRST_RECORD = '>I7i8BBI7', 42, 43
local ONE_LIMIT_REPLY = '>BBI7I7I7I7'
-- The first sums of the open reservations of a key, where its state begins behind them, and for how long a key keeps this form
-- after its newest hold: see `reservation_records.lua`.
local FIRST_SUMS, MORE_SUMS, AT_MORE_SUMS, AT_STATE, RESERVED_FOR = '>I2BI7i8I7', '>I7I7I7', 26, 100, 60000000
-- The remembered waits in the sums: their format, where they begin, and the bytes from there to a state that is a string if no
-- wait is remembered.
local WAITS, AT_WAITS, NO_WAITS = '>I7I7I7', 79, '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
-- The first two bytes of a key with reservations as a number, the flags with which they are more than holds, the flag of a key
-- that has the units that its holds give back, and the end of no hold.
local IS_RESERVED, HAS_MORE, KNOWS_RELEASED, NEVER = 21506, 4, 8, 9000000000000000

local given, grace = unpack('>BI4', ARGV[1])
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
