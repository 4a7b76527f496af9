-- What a call asks, and the time.
--
--   KEYS      the key of each part, in order
--   ARGV[1]   whether times are given, and by how many milliseconds keys outlive their use
--   ARGV[2]   the groups, like ones together: operation (plus 8, if a part's key comes earlier in the call, too; plus
--             16, if a decision may create no new keys), number of parts, number of groups, deadline in server time (or
--             the time, if given); of each part: the number of its policy, the cost and, for a refund, the time it was
--             charged at
--   ARGV[3…]  the policies: shape, mode, and the capacity of each limit; and what is asked of an override or a list of them
--   reply     the time, and of each group a status. 0: of each part, whether it was charged (1), found (2), returned (4) or
--             joined (8), the time it was read as, and of each limit the units in use after the decision, the wait until it
--             fits (0 if none) and the wait until nothing is in use. 1: too late, nothing was done. 2: an error's text.
--             3: nothing was done, because no new key may be created; for each part 1 if its key exists, 0 if not.
--             If an override decided, other limits (16) and the whole wait (0 if none) follow the time; under
--             a ban (32), the wait of each limit is the time until the ban ends (0 if it has no end); an exempt key
--             (64) has only the time.

local spread = unpack
local pack, unpack, slice, find, floor, ceil = struct.pack, struct.unpack, string.sub, string.find, math.floor, math.ceil
local call, try = redis.call, redis.pcall
local SATURATION, TWO53, TWO48 = 9000000000000000, 9007199254740992, 281474976710656
local FAR_BACK = 60000000
local PAGE = 128
local CHECK, PEEK, CHARGE, AGAIN, NO_NEW_KEYS = 0, 1, 2, 8, 16
local LOG, COUNTER, BUCKETS, FIXED, GCRA = 1, 2, 3, 4, 5
-- Of a short log, after the shape: until when the key lives, base, widths, units before the first entry; then the entries.
local SHORT, SHORT_SIZE, FIRST = '>I7i8BBI7', 42, 43
local ANSWER = '>BBI7I7I7I7'

local given, grace = unpack('>BI4', ARGV[1])
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
