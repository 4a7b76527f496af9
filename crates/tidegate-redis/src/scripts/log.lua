-- A log: dated units, oldest first, in pages.
--
-- KEYS   not read: a log knows the key of its state
-- ARGV   not read
-- reply  none: functions on logs
--
--   page first … page next-1   sealed: hash fields, with as few bytes for an entry as its time and units need
--   page next, the tail        in the header, so that a short log is one field
--   node j                     for each of its 256 pages: first time, and units since the beginning of the node
--   top                        for each node: first time, and units before it
--
-- A page, the tail, a node and the top are lists of records (`records.lua`). Stored times are smaller by `shift`.
-- After the clock went far back, a new `shift` moves all entries at once. Units before a page or record are counted
-- from the beginning of the log, modulo 2^53. Entries at or before the time `floor` do not count, even if their page
-- still exists. A search reads at most a top, a node and a page. It first tries the position where it ended last time
-- (`hints`).
--
-- Invariants (`hash_log.lua` also relies on them):
--
--   1. Times increase strictly from record to record, through all pages and the tail. So they do in nodes and in the
--      top, which keep the records of dropped pages until the whole node is dropped.
--   2. A sealed page and the units before it never change, except by a refund. The units before page p + 1 can exceed
--      the units before page p plus the units of p: records that `prune` removed from the tail are in neither. So the
--      units before a page come from its node or from a hint on that page, never from the page before it.
--   3. Records leave the tail only when `floor` is at or after their time. Then `floor` is also at or after the last
--      time of every sealed page. Those pages are dropped later, a few with each charge.
--   4. A position is that of the first record after a horizon: a page, the number of its records that come before (k), and
--      the units before the page. k is less than the number of records of a sealed page: if all of them come before,
--      the position is in the next page. In the tail k can be equal to the number of records. The units before a
--      position in the tail are `before` of the log and, with k = 0, `before` of the tail.
--   5. A hint is the position of a horizon that is not after the one searched for: hints are written with a charge, and
--      the time that a state reads never goes back. If the clock went back, entries, hints and `floor` move together.
--   6. `start` is the units before page `first`. Pages before it, and nodes with only such pages, are dropped.

local NODE = 256
local MAX_PAGES = 262144
-- Maximum number of entries of a tail that can't be sealed yet.
local MAX_UNSEALED = 32 * PAGE

-- Forms of a key that exists.
local STRING, HASH, WITH_OVERRIDE, WITH_RESERVATIONS = 1, 2, 3, 4

local function field(kind, log, number)
  return kind .. pack('>BI4', log.limit_number, number)
end

-- Returns an empty log. `span` is how long entries are kept, which determines the widths of records.
local function new_log(state, limit_number, span)
  return {
    state = state, limit_number = limit_number, span = span, shift = 0, floor = -TWO53, before = 0, first = 0, next = 0, start = 0,
    hints = {}, pages = {}, nodes = {}, tail = record_list('', 1, 0, min(7, width(2 * span)), 2, 0),
  }
end

local function fetch(log, name)
  local value = call('HGET', log.state.key, name)
  if not value then error('DAMAGED a page of the log is missing') end
  return value
end

local function page_of(log, number)
  if number == log.next then return log.tail end
  log.pages[number] = log.pages[number] or page_list(fetch(log, field('p', log, number)))
  return log.pages[number]
end

local function node_of(log, number)
  log.nodes[number] = log.nodes[number] or wide_list(fetch(log, field('n', log, number)), 1)
  return log.nodes[number]
end

local function top_of(log)
  if not log.top then
    local value = fetch(log, field('t', log, 0))
    log.top = wide_list(value, 5)
    log.top.first = unpack('>I4', value)
  end
  return log.top
end

local function set_field(log, name, value)
  log.state.changed_fields[name] = value
end

local function set_top(log, first, records)
  log.top = wide_list(records, 1)
  log.top.first = first
  set_field(log, field('t', log, 0), pack('>I4', first) .. records)
end

local function set_page(log, number, page)
  log.pages[number] = page_list(page)
  set_field(log, field('p', log, number), page)
end

local function set_node(log, number, records)
  log.nodes[number] = wide_list(records, 1)
  set_field(log, field('n', log, number), records)
end

-- Returns the units before a sealed page.
local function page_start(log, number)
  local node = floor(number / NODE)
  local top = top_of(log)
  return add(units_to(top, node - top.first + 1), units_to(node_of(log, node), number - node * NODE + 1))
end

-- Returns the units of the whole log, with dropped ones. A difference of two such numbers is a number of units in use.
local function log_end(log)
  return add(log.before, units_to(log.tail, log.tail.n))
end

-- Returns the units before the first stored record.
local function log_start(log)
  if log.first == log.next then return add(log.before, log.tail.before) end
  return log.start
end

-- Returns the position before the first record of a page or of the tail.
local function start_of(log, number)
  return { page = number, k = 0, before = number == log.next and log.before or page_start(log, number) }
end

-- Returns the position of a horizon, given a hint that is not after it.
local function locate(log, horizon, hint)
  horizon = max(horizon, log.floor) - log.shift
  local tail = log.tail
  local known = hint and hint.page == log.next and hint.k
  if known or log.first == log.next or (tail.n > 0 and time_at(tail, 1) <= horizon) then
    return { page = log.next, k = count_until(tail, horizon, known or 0), before = log.before }
  end
  if hint and hint.page >= log.first then
    local page = page_of(log, hint.page)
    local k = count_until(page, horizon, hint.k)
    if k < page.n then return { page = hint.page, k = k, before = hint.before } end
    local position = start_of(log, hint.page + 1)
    if position.page == log.next then return position end
    page = page_of(log, position.page)
    position.k = count_until(page, horizon, 0)
    if position.k < page.n then return position end
  end
  local top = top_of(log)
  local i = max(count_until(top, horizon, 0), 1)
  local node = node_of(log, top.first + i - 1)
  local j = max(count_until(node, horizon, 0), 1)
  local number = (top.first + i - 1) * NODE + j - 1
  if number < log.first then return { page = log.first, k = 0, before = log.start } end
  local page = page_of(log, number)
  local k = count_until(page, horizon, 0)
  if k == page.n then return start_of(log, number + 1) end
  return { page = number, k = k, before = add(units_to(top, i), units_to(node, j)) }
end

-- Return the units before a position, and those after it.
local function units_before(log, position)
  return add(position.before, units_to(page_of(log, position.page), position.k))
end

local function units_after(log, position)
  return sub(log_end(log), units_before(log, position))
end

-- Returns the units after a horizon, whose position is given. While a forecast assumes that some were given back, these are
-- subtracted (`reservation_ends.lua`).
local function units_left(log, horizon, position)
  local units = units_after(log, position)
  return log.given_back and units - log.given_back(horizon, units) or units
end

-- Returns the last record of a wide list, from record k on, that comes before unit number `units`. Its units are counted
-- from `before`, and `units` from `start`.
local function last_before(list, k, units, before, start)
  local above = list.n + 1
  while above - k > 1 do
    local middle = floor((k + above) / 2)
    if sub(add(before, units_to(list, middle)), start) < units then k = middle else above = middle end
  end
  return k
end

-- Returns the time of unit number `units`, counted from the start of the log. `position` is before that unit.
local function time_of_unit(log, units, position)
  local start = log_start(log)
  local tail = log.tail
  local in_pages = sub(add(log.before, tail.before), start)
  if units > in_pages then
    local known = position and position.page == log.next and position.k or 0
    return time_at(tail, count_before(tail, units - in_pages + tail.before, known) + 1) + log.shift
  end
  if position and position.page < log.next then
    local page, before = page_of(log, position.page), sub(position.before, start)
    if units <= before + units_to(page, page.n) then
      return time_at(page, count_before(page, units - before, position.k) + 1) + log.shift
    end
  end
  local top = top_of(log)
  local first = floor(log.first / NODE)
  local i = last_before(top, first - top.first + 1, units, 0, start)
  local number = top.first + i - 1
  local node, before = node_of(log, number), units_to(top, i)
  local j = last_before(node, number == first and log.first - number * NODE + 1 or 1, units, before, start)
  local page = page_of(log, number * NODE + j - 1)
  local wanted = units - sub(add(before, units_to(node, j)), start)
  return time_at(page, count_before(page, wanted, 0) + 1) + log.shift
end

-- Returns the time of the last unit of a log that has one.
local function last_time(log)
  local tail = log.tail
  local n = tail.n
  if n > 0 and units_to(tail, n) > units_to(tail, n - 1) then return time_at(tail, n) + log.shift end
  return time_of_unit(log, sub(log_end(log), log_start(log)), nil)
end

-- Turns the tail into a page, and adds the page to its node and a new node to the top.
local function seal(log)
  local tail, number = log.tail, log.next
  local times, units = decode(tail)
  local base, last, start = times[1], tail.n, add(log.before, tail.before)
  local time_width, unit_width = width(times[last] - base), width(units[last] - tail.before)
  local value = pack(PAGE_HEADER, base, time_width, unit_width, 0)
    .. encode(times, units, tail.before, base, time_width, unit_width)
  for _, hint in pairs(log.hints) do
    if hint.page == number then hint.before = start end
  end
  set_page(log, number, value)
  if log.first == number then log.start = start end
  local node = floor(number / NODE)
  if number == node * NODE then
    local top = number > 0 and top_of(log)
    if top then
      set_top(log, top.first, slice(top.s, top.from) .. pack(WIDE_RECORD, base, start))
    else
      set_top(log, node, pack(WIDE_RECORD, base, start))
    end
    set_node(log, node, pack(WIDE_RECORD, base, 0))
  else
    local top = top_of(log)
    local since = sub(start, units_to(top, node - top.first + 1))
    set_node(log, node, node_of(log, node).s .. pack(WIDE_RECORD, base, since))
  end
  log.before = log_end(log)
  log.next = number + 1
  log.tail = record_list('', 1, 0, tail.time_width, tail.unit_width, 0)
end

-- Rewrites the tail with records wide enough for `units` more up to `time`, and counts its units from its beginning.
local function widen(log, time, units)
  local tail = log.tail
  local times, sums = decode(tail)
  local base = times[1] or time
  log.before = add(log.before, tail.before)
  local time_width = min(7, width(max(2 * log.span, 2 * (time - base))))
  local unit_width = min(7, width(max(255 * 256, 4 * units)))
  local records = encode(times, sums, tail.before, base, time_width, unit_width)
  log.tail = record_list(records, 1, base, time_width, unit_width, 0)
end

-- Returns whether the slot of a key is being moved to another server of a cluster. Then a key that does not exist
-- can't be written, because it counts as moved. So a state that must be deleted before it becomes a hash has to wait.
local function is_moving(key)
  return type(try('EXISTS', key .. '?')) == 'table'
end

-- Returns whether a log must remain a string for now, however long it gets.
local function stays_string(state)
  return state.form == STRING and is_moving(state.key)
end

-- Adds `units` at `time`, which is not before any entry. With `join`, the newest entry gets this time and these units.
-- Returns whether they were joined because the log can't grow now.
local function append(log, time, units, join)
  time = time - log.shift
  local tail, joined = log.tail, false
  local n = tail.n
  if n >= PAGE and not join and time_at(tail, n) ~= time then
    if log.next - log.first >= MAX_PAGES then
      join, joined = true, true
    elseif not stays_string(log.state) then
      seal(log)
      tail, n = log.tail, 0
    elseif n >= MAX_UNSEALED then
      join, joined = true, true
    end
  end
  units = units + (units_to(tail, n) - tail.before)
  if n > 0 and (join or time_at(tail, n) == time) then
    n = n - 1
    tail.s, tail.n = slice(tail.s, 1, n * tail.size), n
  end
  if n == 0 then tail.base = time end
  if time - tail.base >= 256 ^ tail.time_width or units >= min(256 ^ tail.unit_width, TWO53) - tail.before then
    widen(log, time, units)
    tail = log.tail
  end
  units = units + tail.before
  tail.s = tail.s .. pack(tail.time, time - tail.base) .. pack(tail.unit, units)
  tail.n = n + 1
  return joined
end

-- Drops the entries before a position: the records of the tail at once, and at most four pages.
local function prune(log, position)
  if position.page == log.next and position.k > 0 then
    local tail, k = log.tail, position.k
    tail.before = units_to(tail, k)
    tail.s, tail.n = slice(tail.s, k * tail.size + 1), tail.n - k
    for _, hint in pairs(log.hints) do
      if hint.page == log.next then hint.k = max(0, hint.k - k) end
    end
    position.k = 0
  end
  if log.first >= position.page then return end
  local deleted_fields, top = log.state.deleted_fields, top_of(log)
  for _ = 1, 4 do
    if log.first >= position.page then break end
    deleted_fields[#deleted_fields + 1] = field('p', log, log.first)
    log.pages[log.first] = nil
    log.first = log.first + 1
    if log.first == (top.first + 1) * NODE then
      deleted_fields[#deleted_fields + 1] = field('n', log, top.first)
      set_top(log, top.first + 1, slice(top.s, top.from + WIDE_RECORD_SIZE))
      top = log.top
    end
  end
  if log.first < log.next then log.start = page_start(log, log.first) end
end

-- Returns the records of a wide list without the units that were taken from the pages or nodes before them. `taken_from` has
-- these units by number; `number` is that of the first record.
local function records_without(list, number, taken_from)
  local taken, same, parts = 0, 0, {}
  for i = 1, list.n do
    if taken == 0 then same = i else parts[#parts + 1] = pack(WIDE_RECORD, time_at(list, i), sub(units_to(list, i), taken)) end
    taken = taken + (taken_from[number + i - 1] or 0)
  end
  return slice(list.s, list.from, list.from + same * WIDE_RECORD_SIZE - 1) .. table.concat(parts)
end

local function moved_records(list, shift)
  local parts = {}
  for i = 1, list.n do parts[i] = pack(WIDE_RECORD, time_at(list, i) + shift, units_to(list, i)) end
  return table.concat(parts)
end

-- Rewrites all times without `shift`, because they would no longer be exact with it.
local function unshift(log)
  local shift = log.shift
  log.shift, log.tail.base = 0, log.tail.base + shift
  for number = log.first, log.next - 1 do
    local page = page_of(log, number)
    local value = pack(PAGE_HEADER, page.base + shift, page.time_width, page.unit_width, page.before) .. slice(page.s, page.from)
    set_page(log, number, value)
  end
  if log.next == 0 then return end
  local top = top_of(log)
  for i = 1, top.n do set_node(log, top.first + i - 1, moved_records(node_of(log, top.first + i - 1), shift)) end
  set_top(log, top.first, moved_records(top, shift))
end

-- Moves every entry by `delta` microseconds. A node and the top keep the times of dropped pages, so the tail alone can
-- be moved only if no page was ever sealed.
local function move(log, delta)
  log.floor = max(log.floor + delta, -TWO53)
  if log.next == 0 then
    log.tail.base = log.tail.base + delta
  else
    log.shift = log.shift + delta
  end
end

-- Returns the page that has the last record at or before a time, its number first, or nil. The third result is the position
-- of that record.
local function page_before(log, time)
  local position = locate(log, time, nil)
  local number, k = position.page, position.k
  if k == 0 then
    -- The record before the position is the last record of the previous page.
    if number == log.first then return nil end
    number = number - 1
    k = page_of(log, number).n
  end
  return number, page_of(log, number), k
end

-- Removes units from records: `taken_from` has a table for each page, with the number of units for each record. Each page, node
-- and top is written once. Returns how many units were removed.
local function remove_from_pages(log, taken_from)
  local all, sealed, taken_from_page, taken_from_node = 0, 0, {}, {}
  for number, from in pairs(taken_from) do
    local page, first, taken = page_of(log, number), nil, 0
    for k in pairs(from) do first = first and min(first, k) or k end
    local parts = { slice(page.s, page.from, page.from + (first - 1) * page.size - 1) }
    local format = UNSIGNED[page.time_width] .. slice(UNSIGNED[page.unit_width], 2)
    for k = first, page.n do
      local time, sum = unpack(format, page.s, page.from + (k - 1) * page.size)
      taken = taken + (from[k] or 0)
      parts[#parts + 1] = pack(format, time, sum - taken)
    end
    all = all + taken
    local records = table.concat(parts)
    if number == log.next then
      page.s, page.from = records, 1
    else
      set_page(log, number, slice(page.s, 1, PAGE_HEADER_SIZE) .. records)
      local node = floor(number / NODE)
      taken_from_page[number], taken_from_node[node] = taken, (taken_from_node[node] or 0) + taken
      sealed = sealed + taken
      for _, hint in pairs(log.hints) do
        if hint.page > number and hint.page < log.next then hint.before = sub(hint.before, taken) end
      end
    end
  end
  if sealed == 0 then return all end
  log.before = sub(log.before, sealed)
  for node in pairs(taken_from_node) do
    set_node(log, node, records_without(node_of(log, node), node * NODE, taken_from_page))
  end
  local top = top_of(log)
  set_top(log, top.first, records_without(top, top.first, taken_from_node))
  return all
end

-- Removes units from slots of time: `slots` has their first and last times and the units of each. The newest units of a slot are
-- removed. Returns how many units were removed.
local function remove_from_slots(log, slots)
  -- Units before a slot don't change when units after it are removed, so all is written at the end.
  if slots[2] then table.sort(slots, function(a, b) return a.first > b.first end) end
  local taken_from = {}
  for _, slot in ipairs(slots) do
    local first, left, oldest = max(slot.first, log.floor + 1), slot.units, nil
    local number, page, k = page_before(log, slot.last)
    while number and left > 0 do
      while k > 0 and left > 0 and time_at(page, k) + log.shift >= first do
        local taken = min(left, units_to(page, k) - units_to(page, k - 1))
        if taken > 0 then
          taken_from[number] = taken_from[number] or {}
          taken_from[number][k], left = taken, left - taken
        end
        k = k - 1
      end
      if k > 0 or left == 0 then break end
      oldest = oldest or locate(log, first - 1, nil)
      if number <= oldest.page then break end
      -- Skips the older pages without units, of which there may be many.
      local start = number == log.next and add(log.before, page.before) or page_start(log, number)
      local units = sub(start, log_start(log))
      local time = units > 0 and time_of_unit(log, units, nil)
      if not time or time < first then break end
      number, page, k = page_before(log, time)
    end
  end
  return next(taken_from) and remove_from_pages(log, taken_from) or 0
end

-- Visits the entries after `horizon`, newest first, until `visit` returns true. Returns how many older entries there
-- are. Up to `counted` of them are counted one by one; beyond that, every record counts as one entry.
local function visit_newest_first(log, horizon, visit, counted)
  local position, older, stopped = locate(log, horizon, nil), 0, false
  for number = log.next, position.page, -1 do
    local oldest = number == position.page and position.k + 1 or 1
    if stopped and counted <= 0 then
      older = older + (oldest > 1 and page_of(log, number).n - position.k or PAGE)
    else
      local page = page_of(log, number)
      for k = page.n, oldest, -1 do
        local units = units_to(page, k) - units_to(page, k - 1)
        if stopped then counted = counted - 1 end
        if units > 0 then
          if stopped then older = older + 1 else stopped = visit(time_at(page, k) + log.shift, units) end
        end
        if stopped and not counted then return end
      end
    end
  end
  return older
end
