-- The formats of a log that is a hash, and the search in packed records. `hash_log.lua` and `log.lua` use them.
--
-- KEYS   not read
-- ARGV   not read
-- reply  none: formats and a function on bytes

local PAGE = 128
local UNSIGNED = { '>I1', '>I2', '>I3', '>I4', '>I5', '>I6', '>I7' }
local PAGE_HEADER_SIZE = 17
-- The tail: base, widths of times and units, units before, length of the records.
local TAIL, TAIL_SIZE = '>i8BBI7I2', 19
local HINT, HINT_SIZE = '>I4I2I7', 13

-- Returns how many of n records, from byte `from` on, have a number of at most `bound`, if the first k have.
local function count_to(s, from, size, format, n, bound, k)
  local step = 1
  from = from - size
  while k + step <= n and unpack(format, s, from + (k + step) * size) <= bound do k, step = k + step, step * 2 end
  local above = k + step
  if above > n then above = n + 1 end
  while above - k > 1 do
    local middle = floor((k + above) / 2)
    if unpack(format, s, from + middle * size) <= bound then k = middle else above = middle end
  end
  return k
end
