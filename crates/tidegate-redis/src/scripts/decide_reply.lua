-- Adds the reply to a request. If no fast path has decided it, the other files decide.
--
-- KEYS   the key
-- ARGV   not read
-- reply  to one group, as in `call.lua`

if error_text then
  reply = pack('>BI2', 2, #error_text) .. error_text
elseif hash_header or (not reply and n > 1 and kind == LOG and parts == 1 and op <= CHARGE) then
  hash_logs = hash_logs or hash_log_path()
  -- A damaged state must not fail the other decisions. `operations.lua` reports what is wrong with it.
  local ok, answer = pcall(hash_logs, bytes, key, op, cost, now, hash_header, lease, least, earlier, asked, ttl, nonce, most)
  reply = ok and answer or nil
end
if not reply then
  general, headers = general or general_path(), nil
  local more
  reply, more = general(group_op, parts, group_at + 11, key_index)
  if more > 0 then ended = (ended or 0) + more end
end
answered = answered + 1
replies[answered] = reply
key_index = key_index + parts
