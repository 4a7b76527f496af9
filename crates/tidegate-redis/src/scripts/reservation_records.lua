-- The open reservations of a key, in pages that are ordered by their ends, then by their grants.
--
-- KEYS   not read: the caller passes the key
-- ARGV   not read
-- reply  none: functions on reservations
--
-- A key with a few leases and nothing else has them in front of its state: see `leases.lua`. Any other key with reservations is a
-- hash:
--
--   field "h"     "T", version of such keys (1), then the sums below, then the state: 0 and the bytes of a string, or 1 and
--                 the bytes of a hash's field "h"
--     sums        flags (1): 1 if field "o" has an override, 2 if there are leases, 4 if entries may have fewer units than their
--                 holds charged, 8 if the released units are known; first end (7), time of the newest hold (8), units of the
--                 holds that were granted at that time and give units back (7); last end (7), released units (7, 7); number of
--                 reservations (4) and of leases (4), units of holds (7) and of leases (7), number of the next grant (6) and of
--                 the next page (4); the time at which no units are in use (7), a number of units (7) and the time at which at
--                 most these are in use (7), if a denial had to search them since the last change, or 0
--     released    what all holds give back by their ends to a state of one limit that is a few numbers: the units that were
--                 granted in the window of the newest hold, and in the window before; or the two halves of the debt
--   field "d"     for each page: its number (4), records (4), last end (7), number of the last grant (6), units of holds (7)
--   field "e" and the number of a page (4)
--                 records: end (7), number of the grant (6), nonce (16), units (5), time of the grant (8), flags (1)
--   field "x" and a nonce: the other requests of a reservation of several requests
--   field "o"     the override of the key, if it has one
--   others        the pages of the state's logs
--
-- A decision reads the sums only. The key keeps this form for some time after its last hold has ended, because another one
-- is likely to follow.

local RELEASED, LEASE, KEEPS, HAS_OTHERS = 0, 2, 4, 8
-- `call.lua` has the formats of the first sums.
local SUMS = '>BI7i8I7I7I7I7I4I4I7I7I6I4I7I7I7'
local PAGE_INFO, PAGE_INFO_SIZE = '>I4I4I7I6I7', 28
local RECORD, RECORD_SIZE, AT_NONCE, AT_UNITS = '>I7I6c16I5i8B', 43, 13, 29
local END, ORDER = '>I7', '>I7I6'
local HAS_OVERRIDE, HAS_LEASES, IS_REDUCED, KNOWS_RELEASED = 1, 2, 4, 8
local RESERVATION_PAGE = 64
local NEVER = 9000000000000000

local function new_reservations(key)
  return {
    key = key, count = 0, leases = 0, held = 0, leased = 0, first_end = NEVER, last_end = 0, next_number = 0, newest_hold = 0,
    held_at_newest = 0, next_page = 0, unused_at = 0, level = 0, falls_at = 0, released = 0, released_before = 0, pages = {}, changed_fields = {}, deleted_fields = {},
  }
end

-- Reads the sums at the beginning of field "h". Returns the reservations, and whether there is an override.
local function read_sums(key, s)
  local open = new_reservations(key)
  open.pages = nil
  local flags
  flags, open.first_end, open.newest_hold, open.held_at_newest, open.last_end, open.released, open.released_before, open.count,
    open.leases, open.held, open.leased, open.next_number, open.next_page, open.unused_at, open.level, open.falls_at =
    unpack(SUMS, s, 3)
  open.is_reduced, open.knows_released = flags % KNOWS_RELEASED >= IS_REDUCED, flags >= KNOWS_RELEASED
  return open, flags % HAS_LEASES == HAS_OVERRIDE
end

local function fetch(open, name)
  local value = call('HGET', open.key, name)
  if not value then error('DAMAGED a page of the reservations is missing', 0) end
  return value
end

local function page_name(page) return 'e' .. pack('>I4', page.number) end

local function pages_of(open)
  if open.pages then return open.pages end
  open.pages = {}
  if open.count > 0 then
    local s = fetch(open, 'd')
    for from = 1, #s, PAGE_INFO_SIZE do
      local page = {}
      page.number, page.n, page.last_end, page.last_number, page.held = unpack(PAGE_INFO, s, from)
      open.pages[#open.pages + 1] = page
    end
  end
  return open.pages
end

local function records_of(open, page)
  page.s = page.s or fetch(open, page_name(page))
  return page.s
end

local function set_records(page, s)
  page.s, page.n, page.is_changed = s, #s / RECORD_SIZE, true
  if page.n > 0 then page.last_end, page.last_number = unpack(ORDER, s, #s - RECORD_SIZE + 1) end
end

local function record_at(s, k)
  local record = {}
  record.ends, record.number, record.nonce, record.units, record.granted_at, record.flags =
    unpack(RECORD, s, (k - 1) * RECORD_SIZE + 1)
  record.is_lease = record.flags % KEEPS == LEASE
  record.gives_back = record.flags % HAS_OTHERS < KEEPS
  -- Whether it gives units back when it ends by itself.
  record.is_released = record.gives_back and record.flags % KEEPS == 0
  return record
end

-- Reads the few leases in front of a state. Returns them as reservations in one page that is not stored yet, and the state.
local function from_leases(key, s)
  local leases, leased, first_end, last_end, size = read_leases(s)
  if not leases then error('DAMAGED the state is cut off', 0) end
  local open, records = new_reservations(key), {}
  for at = 1, #leases, LEASE_SIZE do
    local ends, units, granted_at, nonce = unpack(LEASE_RECORD, leases, at)
    records[#records + 1] = pack(RECORD, ends, #records, nonce, units, granted_at, LEASE)
  end
  local n = #records
  open.count, open.leases, open.leased, open.first_end, open.last_end = n, n, leased, first_end, last_end
  open.next_number, open.next_page = n, 1
  open.pages[1] = { number = 0, n = n, last_end = last_end, last_number = n - 1, held = 0, s = table.concat(records), is_changed = true }
  return open, slice(s, size + 1)
end

-- Returns whether all reservations are leases that fit in front of a state.
local function are_few_leases(open)
  return open.count > 0 and open.count == open.leases and open.count <= FEW_LEASES
end

-- Encodes reservations in front of a state, if they are a few leases.
local function encode_leases(open)
  local leases = {}
  for _, page in ipairs(pages_of(open)) do
    for k = 1, page.n do
      local record = record_at(records_of(open, page), k)
      leases[#leases + 1] = pack(LEASE_RECORD, record.ends, record.units, record.granted_at, record.nonce)
    end
  end
  return lease_header(table.concat(leases))
end

-- Adds what a hold gives back at its end to the released units, or subtracts it.
local function change_released(open, units, granted_at, ends, sign)
  local layout = open.layout
  local window = layout.window[1]
  if layout.kind == GCRA then
    local worth = { drain = layout.drain[1] }
    worth.high, worth.low = mul(units, window)
    local high, low = debt_at(worth, granted_at, ends)
    high, low = open.released + sign * high, open.released_before + sign * low
    local carry = floor(low / TWO48)
    open.released, open.released_before = high + carry, low - carry * TWO48
    return
  end
  local start, since = window_start(window, open.newest_hold), window_start(window, granted_at)
  if since == start then
    open.released = open.released + sign * units
  elseif since == start - window then
    open.released_before = open.released_before + sign * units
  end
end

-- Counts the released units from the window of a new hold.
local function begin_window(open, granted_at)
  local layout = open.layout
  if layout.kind == GCRA then return end
  local window = layout.window[1]
  local passed = window_start(window, granted_at) - window_start(window, open.newest_hold)
  if passed > 0 then open.released, open.released_before = 0, passed == window and open.released or 0 end
end

-- Adds a record to the sums, or subtracts it.
local function count(open, page, record, sign)
  open.count, open.all = open.count + sign, nil
  local units = sign * record.units
  if record.is_lease then
    open.leased, open.leases = open.leased + units, open.leases + sign
    return
  end
  open.held, page.held = open.held + units, page.held + units
  if open.layout and record.is_released then change_released(open, record.units, record.granted_at, record.ends, sign) end
  if record.gives_back and record.granted_at == open.newest_hold then open.held_at_newest = open.held_at_newest + units end
end

local function update_ends(open)
  local first, last = open.pages[1], open.pages[#open.pages]
  open.first_end = first and unpack(END, records_of(open, first)) or NEVER
  open.last_end = last and last.last_end or 0
end

local function is_before(record, ends, number)
  return record.ends < ends or (record.ends == ends and record.number < number)
end

local function new_page(open, at)
  local page = { number = open.next_page, n = 0, last_end = 0, last_number = 0, held = 0, s = '' }
  open.next_page = open.next_page + 1
  table.insert(open.pages, at, page)
  return page
end

-- Moves the second half of the records of a page to a new page.
local function split(open, i)
  local page = open.pages[i]
  local other, middle = new_page(open, i + 1), floor(page.n / 2)
  local s = page.s
  for k = middle + 1, page.n do
    local record = record_at(s, k)
    if not record.is_lease then
      page.held, other.held = page.held - record.units, other.held + record.units
    end
  end
  set_records(page, slice(s, 1, middle * RECORD_SIZE))
  set_records(other, slice(s, middle * RECORD_SIZE + 1))
end

local function put(open, record)
  local pages = pages_of(open)
  local i = #pages
  while i > 1 and is_before(record, pages[i - 1].last_end, pages[i - 1].last_number) do i = i - 1 end
  local page = pages[i]
  -- Most reservations of a key have the same ttl, so the new one ends last.
  local is_last = not page or not is_before(record, page.last_end, page.last_number)
  if not page or (is_last and page.n >= RESERVATION_PAGE) then page = new_page(open, i + 1) end
  local s, k = records_of(open, page), page.n
  if not is_last then
    local low = 0
    while k - low > 0 do
      local middle = floor((low + k) / 2)
      if is_before(record, unpack(ORDER, s, middle * RECORD_SIZE + 1)) then k = middle else low = middle + 1 end
    end
  end
  count(open, page, record, 1)
  local packed = pack(RECORD, record.ends, record.number, record.nonce, record.units, record.granted_at, record.flags)
  set_records(page, slice(s, 1, k * RECORD_SIZE) .. packed .. slice(s, k * RECORD_SIZE + 1))
  if page.n > RESERVATION_PAGE then split(open, i) end
  open.first_end, open.last_end = min(open.first_end, record.ends), max(open.last_end, record.ends)
end

-- Adds a new reservation. `others` is what the store needs to find its other requests, or ''.
local function insert(open, kind, nonce, units, granted_at, ends, others)
  local is_lease = kind == LEASE
  if not is_lease and granted_at > open.newest_hold then
    if open.layout then begin_window(open, granted_at) end
    open.newest_hold, open.held_at_newest = granted_at, 0
  end
  local flags = others == '' and kind or kind + HAS_OTHERS
  if others ~= '' then open.changed_fields['x' .. nonce] = others end
  put(open, {
    ends = ends, number = open.next_number, nonce = nonce, units = units, granted_at = granted_at, flags = flags,
    is_lease = is_lease, gives_back = true, is_released = kind == RELEASED,
  })
  open.next_number = open.next_number + 1
end

local function delete_page(open, i)
  open.deleted_fields[#open.deleted_fields + 1] = page_name(open.pages[i])
  table.remove(open.pages, i)
end

-- Finds an open hold or an open lease. Returns its record, its page and its position there, or nil.
local function find_reservation(open, nonce, is_lease)
  for i, page in ipairs(pages_of(open)) do
    local s, from = records_of(open, page), 1
    while true do
      local at = string.find(s, nonce, from, true)
      if not at then break end
      local offset = at - 1 - AT_NONCE
      if offset % RECORD_SIZE == 0 then
        local k = offset / RECORD_SIZE + 1
        local record = record_at(s, k)
        if record.is_lease == is_lease then return record, i, k end
      end
      from = at + 1
    end
  end
end

local function remove(open, record, i, k)
  local page = open.pages[i]
  count(open, page, record, -1)
  local s = page.s
  set_records(page, slice(s, 1, (k - 1) * RECORD_SIZE) .. slice(s, k * RECORD_SIZE + 1))
  if page.n == 0 then delete_page(open, i) end
  update_ends(open)
end

local function delete_others(open, record)
  if record.flags >= HAS_OTHERS then open.deleted_fields[#open.deleted_fields + 1] = 'x' .. record.nonce end
end

-- Removes an open hold or an open lease. Returns its record, or nil.
local function take(open, nonce, is_lease)
  local record, i, k = find_reservation(open, nonce, is_lease)
  if record then
    remove(open, record, i, k)
    delete_others(open, record)
  end
  return record
end

-- Sets the end of an open hold. Returns whether it was open.
local function renew(open, nonce, ends)
  local record, i, k = find_reservation(open, nonce, false)
  if not record then return false end
  remove(open, record, i, k)
  record.ends = ends
  put(open, record)
  return true
end

-- Removes the reservations that end by `at`. Returns their records, in the order of their ends.
local function take_ended(open, at)
  local ended, pages = {}, pages_of(open)
  while pages[1] do
    local page = pages[1]
    local s, k = records_of(open, page), 0
    while k < page.n do
      local record = record_at(s, k + 1)
      if record.ends > at then break end
      k = k + 1
      ended[#ended + 1] = record
      count(open, page, record, -1)
      delete_others(open, record)
    end
    if k < page.n then
      if k > 0 then set_records(page, slice(s, k * RECORD_SIZE + 1)) end
      break
    end
    delete_page(open, 1)
  end
  update_ends(open)
  return ended
end

-- Returns the numbers of all records, in the order of their ends: a list for each field.
local function all_records(open)
  if open.all then return open.all end
  local ends, units, granted_at, flags, n = {}, {}, {}, {}, 0
  for _, page in ipairs(pages_of(open)) do
    -- One call reads a whole page.
    local numbers = { unpack('>' .. string.rep(slice(RECORD, 2), page.n), records_of(open, page)) }
    for at = 1, 6 * page.n, 6 do
      n = n + 1
      ends[n], units[n], granted_at[n], flags[n] = numbers[at], numbers[at + 3], numbers[at + 4], numbers[at + 5]
    end
  end
  open.all = { ends = ends, units = units, granted_at = granted_at, flags = flags, n = n }
  return open.all
end

-- Returns the layout of a state of one limit that is a few numbers, or nil.
local function layout_of_numbers(state)
  local layout = state.layout
  return layout.number_format and layout.n == 1 and not state.migration and layout or nil
end

-- Encodes the sums of the reservations of a state.
local function encode_sums(open, has_override, state)
  local layout = layout_of_numbers(state)
  if layout ~= open.layout then
    open.layout, open.released, open.released_before = layout, 0, 0
    local all = layout and all_records(open) or { n = 0 }
    for k = 1, all.n do
      if all.flags[k] % HAS_OTHERS == 0 then change_released(open, all.units[k], all.granted_at[k], all.ends[k], 1) end
    end
  end
  local flags = (has_override and HAS_OVERRIDE or 0) + (open.leases > 0 and HAS_LEASES or 0) + (layout and KNOWS_RELEASED or 0)
  -- Without open holds, nothing is reduced.
  if open.is_reduced and open.count > 0 then flags = flags + IS_REDUCED end
  return 'T\2' .. pack(SUMS, flags, open.first_end, open.newest_hold, open.held_at_newest, open.last_end, open.released,
    open.released_before, open.count, open.leases, open.held, open.leased, open.next_number, open.next_page,
    open.remembers and open.unused_at or 0, open.remembers and open.level or 0, open.remembers and open.falls_at or 0)
end

-- Returns the records, in the order of their ends; at most `most`.
local function listed_records(open, most)
  local all = {}
  for _, page in ipairs(pages_of(open)) do
    local s = records_of(open, page)
    for k = 1, page.n do
      if #all == most then return all end
      all[#all + 1] = record_at(s, k)
    end
  end
  return all
end

-- Moves all reservations to an earlier time, because the clock went far back. Their holds give nothing back any more.
local function shift_reservations(open, step)
  open.all = nil
  for _, page in ipairs(pages_of(open)) do
    local records = {}
    for k = 1, page.n do
      local record = record_at(records_of(open, page), k)
      local flags = record.gives_back and record.flags + KEEPS or record.flags
      records[k] = pack(RECORD, record.ends - step, record.number, record.nonce, record.units, record.granted_at - step, flags)
    end
    set_records(page, table.concat(records))
  end
  update_ends(open)
  open.newest_hold, open.held_at_newest, open.released, open.released_before = 0, 0, 0, 0
end

-- Returns the fields to set, as a list of names and values. Appends those to delete to `deleted`.
local function changed_reservations(open, deleted)
  local fields, is_changed = {}, false
  local function set(name, value) fields[#fields + 1], fields[#fields + 2] = name, value end
  for _, name in ipairs(open.deleted_fields) do
    if not open.changed_fields[name] then deleted[#deleted + 1] = name end
    is_changed = true
  end
  local infos = {}
  for i, page in ipairs(open.pages or {}) do
    if page.is_changed then
      set(page_name(page), page.s)
      is_changed = true
    end
    infos[i] = pack(PAGE_INFO, page.number, page.n, page.last_end, page.last_number, page.held)
  end
  for name, value in pairs(open.changed_fields) do set(name, value) end
  if is_changed and infos[1] then set('d', table.concat(infos)) end
  if is_changed and not infos[1] then deleted[#deleted + 1] = 'd' end
  return fields
end
