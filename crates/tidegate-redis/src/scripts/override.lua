-- An override: what holds for one key in place of its policy's limits. Its key is a hash then, whatever the state is.
--
--   field "h"  "O", version, since when, until when (0: for good), kind; the limits as a policy's bytes, and a note, each with
--              its length before it; whether the key is a joined one, and the key, with its length before it
--   field "s"  the state, if there is one: 0 and what would be the string, or 1 and what would be the hash's field "h"
--   others     the pages of the state's logs
--
-- So whoever expects a state sees at the first byte that it is not one, and the fast ways leave it to `thorough.lua`.

local OTHER_LIMITS, BAN, EXEMPT = 1, 2, 3
local OVERRIDE, OVERRIDE_SIZE = '>I7I7BI2', 17

local function override_from(record)
  local version = unpack('>B', record .. '\0', 2)
  if version ~= VERSION then
    error('NEWERVERSION the key holds an override of format ' .. version .. ', this is format ' .. VERSION, 0)
  end
  if #record < 2 + OVERRIDE_SIZE then error('DAMAGED the override is cut off', 0) end
  local since, ends, kind, length = unpack(OVERRIDE, record, 3)
  return { bytes = record, since = since, ends = ends, kind = kind, blob = slice(record, 20, 19 + length) }
end

-- Whether an override no longer holds at a time.
local function is_over(override, at)
  return override.ends > 0 and at >= override.ends
end

-- Whether an override of a key under a policy of this shape holds now, as that is read: not before the newest charge, unless that
-- is so far ahead that the clock which wrote it is not to be believed.
local function holds(override, shape, state)
  local at = now
  if state then
    local longest = shape.longest
    if override.kind == OTHER_LIMITS then
      longest = shape_of(slice(override.blob, 1, 2 + 14 * unpack('>B', override.blob, 2))).longest
    end
    if state.newest - now <= max(60000000, longest) then at = max(now, state.newest) end
  end
  return not is_over(override, at)
end

-- Takes all of a hash but the override: as long as that is there, so is the key, in a slot that is being moved, too.
local function forget_fields(key)
  local gone = {}
  for _, name in ipairs(call('HKEYS', key)) do
    if name ~= 'h' then gone[#gone + 1] = name end
    if #gone == 1000 then
      call('HDEL', key, spread(gone))
      gone = {}
    end
  end
  if #gone > 0 then call('HDEL', key, spread(gone)) end
end

-- Lets a key live until its override ends, and for so many microseconds at the least.
local function live_on(key, override, lives, now, grace)
  if override.ends == 0 then
    call('PERSIST', key)
  else
    call('PEXPIRE', key, math.ceil(max(lives, override.ends - now) / 1000) + grace)
  end
end

-- Writes the fields of a state and the override that it lies beside.
local function save_beside(state, writes, lives, now, grace)
  local key, override, first = state.key, state.override, writes[1]
  if is_replaced(state) then
    checked(try('DEL', key))
  elseif state.wipe then
    forget_fields(key)
  end
  local is_new = not state.beside or override.is_new
  if is_new then first[#first + 1], first[#first + 2] = 'h', override.bytes end
  for _, fields in ipairs(writes) do checked(try('HSET', key, spread(fields))) end
  -- What has no end was told so when it was set.
  if lives and (is_new or override.ends > 0) then live_on(key, override, lives, now, grace) end
end
