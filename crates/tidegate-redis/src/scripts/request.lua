-- What a call asks, and the time.
--
--   KEYS      the key of each part, in order
--   ARGV[1]   whether times are given, and by how many milliseconds keys outlive their use
--   ARGV[2]   the groups: operation, number of parts, deadline in server time (or the time, if given); of each part: the
--             number of its policy, the cost and, for a refund, the time it was charged at
--   ARGV[3…]  the policies: shape, mode, and the capacity of each limit
--   reply     the time, and of each group a status. 0: of each part, whether it was charged (1), found (2), returned (4) or
--             joined (8), the time it was read as, and of each limit the units in use after the decision, the wait until it
--             fits (0 if none) and the wait until nothing is in use. 1: too late, nothing was done. 2: an error's text.

local spread = unpack
local pack, unpack, slice, floor, ceil = struct.pack, struct.unpack, string.sub, math.floor, math.ceil
local call, try = redis.call, redis.pcall
local SATURATION, TWO53, TWO48 = 9000000000000000, 9007199254740992, 281474976710656
local FAR_BACK = 60000000
local PAGE = 128
local CHECK, PEEK, CHARGE = 0, 1, 2
local LOG, COUNTER, FIXED, GCRA = 1, 2, 4, 5
local UNSIGNED = { '>I1', '>I2', '>I3', '>I4', '>I5', '>I6', '>I7' }
local POWER = { 256, 65536, 16777216, 4294967296, 1099511627776, 281474976710656, TWO53 }
local TAIL = '>i8BBI7I2'
local ANSWER = '>BBI7I7I7I7'

local given, grace = unpack('>BI4', ARGV[1])
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
