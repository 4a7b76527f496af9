-- Runs: the records of a page, of a tail, of a node and of a top. A record is a time and the units up to that time.
--
--   sealed run   base, widths of times and units, units before; then the records, whose times are counted from the base
--   wide run     records of 8 and 7 bytes, for nodes and tops
--
-- A run keeps its bytes packed (`s`, records from `from` on): a search unpacks only the records that it reads.

local UNSIGNED = { '>I1', '>I2', '>I3', '>I4', '>I5', '>I6', '>I7' }
local RUN, RUN_SIZE = '>i8BBI7', 17
local WIDE, WIDE_SIZE = '>i8I7', 15

-- How many bytes are needed for n.
local function width(n)
  local bytes, most = 1, 256
  while n >= most do bytes, most = bytes + 1, most * 256 end
  return bytes
end

local function run(records, from, base, time_width, unit_width, before)
  local size = time_width + unit_width
  return {
    s = records, from = from, n = (#records - from + 1) / size, size = size, base = base, time_width = time_width,
    unit_width = unit_width, time = UNSIGNED[time_width], unit = UNSIGNED[unit_width], before = before,
  }
end

local function wide_run(records, from)
  return {
    s = records, from = from, n = (#records - from + 1) / WIDE_SIZE, size = WIDE_SIZE, base = 0, time_width = 8,
    time = '>i8', unit = '>I7', before = 0,
  }
end

local function sealed_run(s)
  local base, time_width, unit_width, before = unpack(RUN, s)
  return run(s, RUN_SIZE + 1, base, time_width, unit_width, before)
end

local function time_at(r, k)
  return r.base + (unpack(r.time, r.s, r.from + (k - 1) * r.size))
end

-- Units up to record k, which is included.
local function units_to(r, k)
  if k == 0 then return r.before end
  return (unpack(r.unit, r.s, r.from + (k - 1) * r.size + r.time_width))
end

-- How many records are dated `horizon` or before, given that the first k are.
local function count_until(r, horizon, k)
  local n, s, format, size = r.n, r.s, r.time, r.size
  local from, step = r.from - size, 1
  horizon = horizon - r.base
  while k + step <= n and unpack(format, s, from + (k + step) * size) <= horizon do
    k, step = k + step, step * 2
  end
  local above = min(k + step, n + 1)
  while above - k > 1 do
    local middle = floor((k + above) / 2)
    if unpack(format, s, from + middle * size) <= horizon then k = middle else above = middle end
  end
  return k
end

-- How many records come before the one that reaches `units`, given that the first k do.
local function count_before(r, units, k)
  local n, s, format, size = r.n, r.s, r.unit, r.size
  local from, step = r.from - size + r.time_width, 1
  while k + step <= n and unpack(format, s, from + (k + step) * size) < units do
    k, step = k + step, step * 2
  end
  local above = min(k + step, n + 1)
  while above - k > 1 do
    local middle = floor((k + above) / 2)
    if unpack(format, s, from + middle * size) < units then k = middle else above = middle end
  end
  return k
end

-- Encodes times and units (less `before`) as consecutive records of these widths.
local function encode(times, units, before, base, time_width, unit_width)
  local format = UNSIGNED[time_width] .. slice(UNSIGNED[unit_width], 2)
  local records = {}
  for k = 1, #times do records[k] = pack(format, times[k] - base, units[k] - before) end
  return table.concat(records)
end

local function decode(r)
  local times, units = {}, {}
  for k = 1, r.n do times[k], units[k] = time_at(r, k), units_to(r, k) end
  return times, units
end
