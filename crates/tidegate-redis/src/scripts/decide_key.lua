-- Begins to decide on the next key, or on several keys as one decision: refuses a request that came too late or may not create a
-- key.
--
-- KEYS   the key
-- ARGV   not read
-- reply  to one group, as in `call.lua`; nil if it must still be decided

local key, reply, error_text, hash_header = KEYS[key_index], nil, nil, nil
if no_new_keys and now <= deadline and (group_op <= CHARGE or group_op == RESERVE or group_op == LEASE) then
  local flags = ''
  for i = key_index, key_index + parts - 1 do flags = flags .. (try('EXISTS', KEYS[i]) == 0 and '\0' or '\1') end
  if find(flags, '\0', 1, true) then reply = '\3' .. flags end
end
if not reply and now > deadline then reply = '\1' end
-- Whether a fast path may decide.
local is_simple = not reply and parts == 1 and op <= CHARGE
