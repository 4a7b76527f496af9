-- An override: it replaces the limits of a policy for one key. The key is a hash then, whatever its state.
--
-- KEYS   not read
-- ARGV   not read
-- reply  none: functions on overrides
--
--   field "h"  "O", version (1), time when it was set (7), end or 0 (7), kind (1); length (2) and limits as a policy;
--              length (2) and note; 1 if the key is joined from parts, or 0 (1); length (2) and key
--   field "s"  the state, if there is one: 0 and the bytes of a string, or 1 and the bytes of a hash's field "h"
--   others     the pages of the state's logs
--
-- The first byte shows that the value is not a plain state. `decide.lua` and `hash_log.lua` leave such keys to
-- `operations.lua`.

local OTHER_LIMITS, BAN, EXEMPT = 1, 2, 3
local OVERRIDE, OVERRIDE_SIZE = '>I7I7BI2', 17

local function read_override(record)
  local version = unpack('>B', record .. '\0', 2)
  if version ~= VERSION then
    error('NEWERVERSION the key holds an override of format ' .. version .. ', this is format ' .. VERSION, 0)
  end
  if #record < 2 + OVERRIDE_SIZE then error('DAMAGED the override is cut off', 0) end
  local since, ends, kind, length = unpack(OVERRIDE, record, 3)
  return { bytes = record, since = since, ends = ends, kind = kind, blob = slice(record, 20, 19 + length) }
end

-- Returns whether an override has ended at a time.
local function has_ended(override, at)
  return override.ends > 0 and at >= override.ends
end

-- Returns whether an override of a key under a policy of this layout is active. It is judged at the time at which the
-- state is read, which is that of the newest charge if it is later than now, unless it is so far ahead that its clock
-- was wrong.
local function is_active(override, layout, state)
  local at = now
  if state then
    local longest = layout.longest
    if override.kind == OTHER_LIMITS then
      longest = layout_of(slice(override.blob, 1, 2 + 14 * unpack('>B', override.blob, 2))).longest
    end
    if state.newest - now <= max(FAR_BACK, longest) then at = max(now, state.newest) end
  end
  return not has_ended(override, at)
end

-- Deletes all fields but the override. The key remains, so it can be written even while its slot is being moved.
local function delete_state_fields(key)
  local names = {}
  for _, name in ipairs(call('HKEYS', key)) do
    if name ~= 'h' then names[#names + 1] = name end
    if #names == 1000 then
      call('HDEL', key, spread(names))
      names = {}
    end
  end
  if #names > 0 then call('HDEL', key, spread(names)) end
end

-- Sets the expiry of a key: the end of its override, but at least after `lifetime` microseconds.
local function renew_expiry(key, override, lifetime, now, grace)
  if override.ends == 0 then
    call('PERSIST', key)
  else
    call('PEXPIRE', key, math.ceil(max(lifetime, override.ends - now) / 1000) + grace)
  end
end
