-- The list of a policy's overrides, for counting and listing them: a hash. Its fields are the names of the keys that
-- have overrides, and its values are the same records. Decisions use only the records in the keys.
--
-- KEYS   the key of the list
-- ARGV   after the bytes of a policy, a step (1) and its request:
--          1 has room   maximum number of overrides (4), field
--          2 put        length of the field (2), field, record
--          3 remove     field
--          4 read page  cursor
-- reply  a length (4), and that many bytes:
--          1 has room   1 if the field exists or may be added, or 0 (1)
--          4 read page  length of the next cursor (2), cursor, and for each record its length (2) and the record
--
-- The field "~" has the first and the last end of an override in the list (7, 7), and the number of those without an
-- end (4).

local HAS_ROOM, PUT, REMOVE, READ_PAGE = 1, 2, 3, 4
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
  local ends = read_override(record).ends
  if ends == 0 then
    meta.endless = meta.endless + 1
  else
    meta.first, meta.last = min(meta.first, ends), max(meta.last, ends)
  end
end

-- Removes overrides that have ended. A long list is swept only if it is full (`needed`).
local function sweep(key, meta, needed)
  if meta.first > now or (not needed and call('HLEN', key) > 1500) then return end
  local cursor, ended = '0', {}
  meta.first, meta.last, meta.endless = NEVER, 0, 0
  -- HSCAN may return a field twice.
  local seen = {}
  repeat
    local page = call('HSCAN', key, cursor, 'COUNT', '500')
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local name, record = page[2][i], page[2][i + 1]
      if name ~= '~' and not seen[name] then
        seen[name] = true
        if has_ended(read_override(record), now) then ended[#ended + 1] = name else count(meta, record) end
      end
    end
  until cursor == '0'
  for i = 1, #ended, 1000 do call('HDEL', key, spread(ended, i, min(i + 999, #ended))) end
end

-- Writes the field "~", and a field and its record if given. The list expires with the last of its overrides.
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

-- Subtracts a field from the counts in `meta`. Returns its record.
local function uncount(key, meta, field)
  local record = call('HGET', key, field)
  if record and read_override(record).ends == 0 then meta.endless = meta.endless - 1 end
  return record
end

local function is_full(key, max_overrides)
  return max(checked(try('HLEN', key)) - 1, 0) >= max_overrides
end

local STEPS = {
  [HAS_ROOM] = function(key, request)
    local max_overrides = unpack('>I4', request)
    local field = slice(request, 5)
    if not is_full(key, max_overrides) then return '\1' end
    local meta = read_meta(key)
    sweep(key, meta, true)
    write(key, meta)
    return (not is_full(key, max_overrides) or call('HGET', key, field)) and '\1' or '\0'
  end,
  [PUT] = function(key, request)
    local length = unpack('>I2', request)
    local field, record = slice(request, 3, 2 + length), slice(request, 3 + length)
    local meta = read_meta(key)
    sweep(key, meta)
    uncount(key, meta, field)
    count(meta, record)
    write(key, meta, field, record)
    return ''
  end,
  [REMOVE] = function(key, field)
    local meta = read_meta(key)
    sweep(key, meta)
    if uncount(key, meta, field) then call('HDEL', key, field) end
    write(key, meta)
    return ''
  end,
  [READ_PAGE] = function(key, cursor)
    read_meta(key)
    local page = call('HSCAN', key, cursor, 'COUNT', '200')
    local found = { pack('>I2', #page[1]), page[1] }
    for i = 1, #page[2], 2 do
      local name, record = page[2][i], page[2][i + 1]
      if name ~= '~' and not has_ended(read_override(record), now) then
        found[#found + 1] = pack('>I2', #record) .. record
      end
    end
    return table.concat(found)
  end,
}

return function(out, parts)
  local part = parts[1]
  local request = part.policy.size + 1
  local reply = STEPS[unpack('>B', part.blob, request)](part.key, slice(part.blob, request + 1))
  out[#out + 1] = pack('>I4', #reply) .. reply
end
