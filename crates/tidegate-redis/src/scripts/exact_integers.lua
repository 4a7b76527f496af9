-- Exact integers.
--
-- KEYS   not read
-- ARGV   not read
-- reply  none: functions on numbers
--
-- Numbers in Lua are exact up to 2^53. Units and times end at 9 * 10^15, which is just below. A larger number is a
-- pair (high, low) with the value high * 2^48 + low, or is counted modulo 2^53.

-- Names of `call.lua` are defined again: each local of the main chunk that a function captures makes every call slower.
local SATURATION, FAR_BACK = 9000000000000000, 60000000
local TWO53, TWO48, TWO24 = 9007199254740992, 281474976710656, 16777216
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local pack, unpack, slice = struct.pack, struct.unpack, string.sub
local call, try = redis.call, redis.pcall

-- Return the sum and the difference, modulo 2^53, of numbers below 2^53.
local function add(a, b)
  local room = TWO53 - b
  if a >= room then return a - room end
  return a + b
end

local function sub(a, b)
  if a < b then return a - b + TWO53 end
  return a - b
end

-- Returns a * b as a pair. The product is below 2^99.
local function mul(a, b)
  local product = a * b
  if product < TWO53 then
    local high = floor(product / TWO48)
    return high, product - high * TWO48
  end
  local a1, b1 = floor(a / TWO24), floor(b / TWO24)
  local a0, b0 = a - a1 * TWO24, b - b1 * TWO24
  local one, two = a1 * b0, a0 * b1
  local one1, two1 = floor(one / TWO24), floor(two / TWO24)
  local low = a0 * b0 + (one - one1 * TWO24 + two - two1 * TWO24) * TWO24
  local carry = floor(low / TWO48)
  return a1 * b1 + one1 + two1 + carry, low - carry * TWO48
end

-- Divides a pair by c. Returns the quotient, which is below 2^53, and the remainder.
local function div(high, low, c)
  if high < 32 then
    local dividend = high * TWO48 + low
    local quotient = floor(dividend / c)
    return quotient, dividend - quotient * c
  end
  local quotient = floor((high * TWO48 + low) / c)
  local taken_high, taken_low = mul(quotient, c)
  local rest_high, rest_low = high - taken_high, low - taken_low
  if rest_low < 0 then rest_high, rest_low = rest_high - 1, rest_low + TWO48 end
  local c_high = floor(c / TWO48)
  local c_low = c - c_high * TWO48
  -- The estimate may be wrong by a few.
  while rest_high < 0 do
    quotient, rest_high, rest_low = quotient - 1, rest_high + c_high, rest_low + c_low
    if rest_low >= TWO48 then rest_high, rest_low = rest_high + 1, rest_low - TWO48 end
  end
  while rest_high > c_high or (rest_high == c_high and rest_low >= c_low) do
    quotient, rest_high, rest_low = quotient + 1, rest_high - c_high, rest_low - c_low
    if rest_low < 0 then rest_high, rest_low = rest_high - 1, rest_low + TWO48 end
  end
  return quotient, rest_high * TWO48 + rest_low
end

-- Return floor(a * b / c) and ceil(a * b / c), exactly.
local function mul_div(a, b, c)
  local product = a * b
  if product < TWO53 then return floor(product / c) end
  local high, low = mul(a, b)
  return (div(high, low, c))
end

local function mul_div_up(a, b, c)
  local high, low = mul(a, b)
  local quotient, rest = div(high, low, c)
  if rest > 0 then return quotient + 1 end
  return quotient
end
