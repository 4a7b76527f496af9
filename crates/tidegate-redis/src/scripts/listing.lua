-- The list of a policy's overrides: a hash of its own, whose fields are the names of the keys that hold them and whose values
-- are the same records. What counts is what the keys hold; the list is for looking at and counting.
--
--   field "~"   the first and the last time that an entry ends, and how many have no end
--   asked       after the policy's bytes, a step. 1: whether there is room for a field, given the most there may be. 2: put a
--               field and its record. 3: remove a field. 4: a page of records, given a cursor
--   reply       a length, and that many bytes. 1: whether there is room. 4: the next cursor and the records, each with its
--               length before it

local ROOM, PUT, REMOVE, PAGE_OF = 1, 2, 3, 4
local META, NEVER = '>I7I7I4', 9000000000000001

local function read_meta(key)
  local meta = checked(try('HGET', key, '~'))
  if meta then
    local first, last, endless = unpack(META, meta)
    return { first = first, last = last, endless = endless }
  end
  if call('EXISTS', key) == 1 then error(FOREIGN, 0) end
  return { first = NEVER, last = 0, endless = 0 }
end

local function count(meta, record)
  local ends = override_from(record).ends
  if ends == 0 then
    meta.endless = meta.endless + 1
  else
    meta.first, meta.last = min(meta.first, ends), max(meta.last, ends)
  end
end

-- Removes what has ended, if anything has and it does not take long; for want of room, whatever it takes.
local function sweep(key, meta, needed)
  if meta.first > now or (not needed and call('HLEN', key) > 1500) then return end
  local cursor, gone = '0', {}
  meta.first, meta.last, meta.endless = NEVER, 0, 0
  -- An entry may come twice.
  local seen = {}
  repeat
    local page = call('HSCAN', key, cursor, 'COUNT', '500')
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local name, record = page[2][i], page[2][i + 1]
      if name ~= '~' and not seen[name] then
        seen[name] = true
        if is_over(override_from(record), now) then gone[#gone + 1] = name else count(meta, record) end
      end
    end
  until cursor == '0'
  for i = 1, #gone, 1000 do call('HDEL', key, spread(gone, i, min(i + 999, #gone))) end
end

-- Writes what is known of the entries, and one of them if it is given. The list lives as long as the last of them.
local function write(key, meta, field, record)
  if not field and call('HLEN', key) <= 1 then
    call('DEL', key)
    return
  end
  local fields = { '~', pack(META, meta.first, meta.last, meta.endless), field, record }
  checked(try('HSET', key, spread(fields)))
  if meta.endless > 0 then
    call('PERSIST', key)
  else
    call('PEXPIRE', key, math.ceil((meta.last - now) / 1000) + grace)
  end
end

-- Counts an entry no longer; whether there is one.
local function without(key, meta, field)
  local record = call('HGET', key, field)
  if record and override_from(record).ends == 0 then meta.endless = meta.endless - 1 end
  return record
end

local function is_full(key, most)
  return max(checked(try('HLEN', key)) - 1, 0) >= most
end

local STEPS = {
  [ROOM] = function(key, asked)
    local most = unpack('>I4', asked)
    local field = slice(asked, 5)
    if not is_full(key, most) then return '\1' end
    local meta = read_meta(key)
    sweep(key, meta, true)
    write(key, meta)
    return (not is_full(key, most) or call('HGET', key, field)) and '\1' or '\0'
  end,
  [PUT] = function(key, asked)
    local length = unpack('>I2', asked)
    local field, record = slice(asked, 3, 2 + length), slice(asked, 3 + length)
    local meta = read_meta(key)
    sweep(key, meta)
    without(key, meta, field)
    count(meta, record)
    write(key, meta, field, record)
    return ''
  end,
  [REMOVE] = function(key, field)
    local meta = read_meta(key)
    sweep(key, meta)
    if without(key, meta, field) then call('HDEL', key, field) end
    write(key, meta)
    return ''
  end,
  [PAGE_OF] = function(key, cursor)
    read_meta(key)
    local page = call('HSCAN', key, cursor, 'COUNT', '200')
    local found = { pack('>I2', #page[1]), page[1] }
    for i = 1, #page[2], 2 do
      local name, record = page[2][i], page[2][i + 1]
      if name ~= '~' and not is_over(override_from(record), now) then
        found[#found + 1] = pack('>I2', #record) .. record
      end
    end
    return table.concat(found)
  end,
}

return function(out, parts)
  local part = parts[1]
  local asked = 4 + 21 * part.policy.shape.n
  local reply = STEPS[unpack('>B', part.blob, asked)](part.key, slice(part.blob, asked + 1))
  out[#out + 1] = pack('>I4', #reply) .. reply
end
