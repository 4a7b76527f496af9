-- Lists of records: those of a page, a tail, a node and a top. A record is a time and the number of units up to that
-- time.
--
-- KEYS   not read
-- ARGV   not read
-- reply  none: functions on lists of records
--
--   page       base (8), widths of times (1) and units (1), units before (7); then the records, with times minus the base
--   wide list  records of 8 and 7 bytes, for nodes and tops
--
-- A list keeps its bytes packed (`s`, records from byte `from` on). A search unpacks only the records that it reads.

local PAGE_HEADER = '>i8BBI7'
local WIDE_RECORD, WIDE_RECORD_SIZE = '>i8I7', 15

-- Returns the number of bytes that n needs.
local function width(n)
  local bytes, bound = 1, 256
  while n >= bound do bytes, bound = bytes + 1, bound * 256 end
  return bytes
end

local function record_list(records, from, base, time_width, unit_width, before)
  local size = time_width + unit_width
  return {
    s = records, from = from, n = (#records - from + 1) / size, size = size, base = base, time_width = time_width,
    unit_width = unit_width, time = UNSIGNED[time_width], unit = UNSIGNED[unit_width], before = before,
  }
end

local function wide_list(records, from)
  return {
    s = records, from = from, n = (#records - from + 1) / WIDE_RECORD_SIZE, size = WIDE_RECORD_SIZE, base = 0, time_width = 8,
    time = '>i8', unit = '>I7', before = 0,
  }
end

local function page_list(s)
  local base, time_width, unit_width, before = unpack(PAGE_HEADER, s)
  return record_list(s, PAGE_HEADER_SIZE + 1, base, time_width, unit_width, before)
end

local function time_at(list, k)
  return list.base + (unpack(list.time, list.s, list.from + (k - 1) * list.size))
end

-- Returns the units up to and including record k.
local function units_to(list, k)
  if k == 0 then return list.before end
  return (unpack(list.unit, list.s, list.from + (k - 1) * list.size + list.time_width))
end

-- Returns how many records are at or before `horizon`, if the first k are.
local function count_until(list, horizon, k)
  return count_to(list.s, list.from, list.size, list.time, list.n, horizon - list.base, k)
end

-- Returns how many records come before the one that reaches `units`, if the first k do.
local function count_before(list, units, k)
  return count_to(list.s, list.from + list.time_width, list.size, list.unit, list.n, units - 1, k)
end

-- Encodes times and units (minus `before`) as consecutive records of these widths.
local function encode(times, units, before, base, time_width, unit_width)
  local format = UNSIGNED[time_width] .. slice(UNSIGNED[unit_width], 2)
  local records = {}
  for k = 1, #times do records[k] = pack(format, times[k] - base, units[k] - before) end
  return table.concat(records)
end

local function decode(list)
  local times, units = {}, {}
  for k = 1, list.n do times[k], units[k] = time_at(list, k), units_to(list, k) end
  return times, units
end
