-- The operations on reservations.
--
-- KEYS   the keys of the parts of one group; a lease has one part
-- ARGV   after the bytes of a policy:
--          reserve        kind (1): 0 released at its end, 1 spent; ttl (7), nonce (16), maximum number of open reservations
--                         (4); in the first part, what the store needs to find the other requests
--          commit         1 for the whole reservation, 2 to only show its other requests, or 0 for this request (1); nonce (16),
--                         actual units (7)
--          renew          the same (1), nonce (16), ttl (7)
--          lease          kind (1): 2, and as reserve up to the maximum; asked units (7); 1 if an earlier lease is settled (1),
--                         its nonce (16), its spent units (7)
--          settle         1 (1), nonce (16), spent units (7)
--          secret         the secret to store if there is none (32); the key is that of the secret
-- reply  for each part:
--          reserve        as for a decision; then the wait until another reservation may be open (7), or 0
--          lease          2 if an earlier lease was open, 1 if it was not, or 0 (1); granted units (7); as for reserve
--          secret         the stored secret (32)
--          the others     0 if the reservation is not open, or 1 (1); as for a decision
--        or only
--          3 and the units of a lease (7) of which more were spent; nothing was done
--          4, a length (2) and what the store needs to find the other requests; nothing was done

local RESERVE, COMMIT, RENEW, LEASE_OP, SECRET_OP = 8, 9, 10, 11, 13
local GRANT, GRANT_SIZE = '>BI7c16I4', 28
local LEASE = 2
local TOO_MUCH, IS_PART = 3, 4
-- The scope of an operation that only shows the other requests.
local SHOW = 2

local function read_grant(part)
  local grant = {}
  local at = part.policy.size + 1
  grant.kind, grant.ttl, grant.nonce, grant.most = unpack(GRANT, part.blob, at)
  part.grant, part.after_grant = grant, at + GRANT_SIZE
end

-- Denies another reservation if the key has too many. Sets the time until one more may be open.
local function limit_reservations(part)
  local open = part.state and part.state.reservations
  part.full_wait = 0
  if not open or part.exempt then return end
  if open.count >= part.grant.most or open.held + open.leased + part.cost > SATURATION then
    part.full_wait = open.first_end - now
    part.fits = false
  end
end

local function grant_units(part, units, others)
  local state, grant = part.state, part.grant
  state.reservations = state.reservations or reservations().new(part.key)
  reservations().insert(state.reservations, grant.kind, grant.nonce, units, part.at, part.at + grant.ttl, others)
end

local function reserve(out, parts)
  local admitted = true
  for _, part in ipairs(parts) do
    read_grant(part)
    evaluate(part)
    limit_reservations(part)
    if not part.fits and not part.policy.shadow then admitted = false end
  end
  -- The first part that is recorded gets them.
  local others = slice(parts[1].blob, parts[1].after_grant)
  for _, part in ipairs(parts) do
    local charged = not part.exempt and admitted and part.fits
    if charged then
      spend(part, part.cost)
      grant_units(part, part.cost, others)
      others = ''
    end
    part.writes = part.state and (charged or (part.state_changed and not part.exempt))
    add_reply(out, part, charged and 1 or 0, not charged and not part.fits)
    out[#out + 1] = pack('>I7', part.full_wait)
  end
  write(parts)
end

-- Closes an open lease. Returns whether it was open, and its units if fewer than `spent`.
local function settle_lease(part, nonce, spent)
  local open = part.state and part.state.reservations
  local record = open and reservations().find(open, nonce, true)
  if not record then return false end
  if spent > record.units then return false, record.units end
  reservations().take(open, nonce, true)
  if spent > 0 then part.state = reservations().charge(part.state, part.in_force.layout, part.at, spent) end
  part.state_changed = true
  return true
end

local function lease(out, parts)
  local part = parts[1]
  read_grant(part)
  evaluate(part)
  local asked, settles, nonce, spent = unpack('>I7Bc16I7', part.blob, part.after_grant)
  local settled = 0
  if settles == 1 then
    local known, units = settle_lease(part, nonce, spent)
    if units then
      out[#out + 1] = pack('>BI7', TOO_MUCH, units)
      return
    end
    settled = known and 2 or 1
    measure(part)
    if part.override then overrides().decisions.evaluate(part) end
  end
  limit_reservations(part)
  local granted, charged = 0, false
  if part.exempt then
    granted = asked
  elseif part.fits then
    local free = SATURATION
    for i = 1, part.in_force.n do free = min(free, part.in_force.capacity[i] - part.used[i]) end
    local open = part.state and part.state.reservations
    local parts_of_free = 2 * ((open and open.leases or 0) + 1)
    granted = max(part.cost, min(asked, ceil(free / parts_of_free)))
    charged = true
    part.cost = granted
    charge_part(part, 0)
    for i, used in ipairs(part.used) do part.used[i] = used + granted end
    grant_units(part, granted, '')
  end
  -- A settled lease of an exempt key is settled.
  part.writes = part.state and (charged or settled > 0 or (part.state_changed and not part.exempt))
  out[#out + 1] = pack('>BI7', settled, granted)
  add_reply(out, part, 0, not charged and not part.fits)
  out[#out + 1] = pack('>I7', part.full_wait)
  write(parts)
end

-- Applies a change to an open reservation. Returns whether it was open. The second result is the units of a lease of which
-- more were spent, and the third is what the store needs to find the other requests.
local function change(part, op)
  local whole, nonce, number = unpack('>Bc16I7', part.blob, part.policy.size + 1)
  -- The policy may be a stand-in for one that does not exist any more, so nothing is written under it.
  if whole == SHOW then part.state_changed = false end
  local open, layout = part.state and part.state.reservations, part.in_force.layout
  if not open then return false end
  if op ~= COMMIT and op ~= RENEW then return settle_lease(part, nonce, number) end
  local record = reservations().find(open, nonce, false)
  if not record then return false end
  if whole > 0 then
    local others = reservations().others(open, record)
    if others or whole == SHOW then return true, nil, others or '' end
  end
  part.state_changed = true
  if op == RENEW then return reservations().renew(open, nonce, part.at + number) end
  reservations().take(open, nonce, false)
  if number > record.units then
    part.state = reservations().charge(part.state, layout, part.at, number - record.units)
  elseif number < record.units and record.gives_back then
    reservations().give_back(part.state, layout, record.units - number, record.granted_at, part.at)
  end
  return true
end

local function change_all(out, parts, op)
  for _, part in ipairs(parts) do evaluate(part) end
  for _, part in ipairs(parts) do
    local known, units, others = change(part, op)
    if units then
      out[2], out[3] = pack('>BI7', TOO_MUCH, units), nil
      return
    end
    if others then
      out[2], out[3] = pack('>BI2', IS_PART, #others) .. others, nil
      return
    end
    measure(part)
    if part.override then overrides().decisions.evaluate(part) end
    out[#out + 1] = known and '\1' or '\0'
    add_reply(out, part, 0, false)
    part.writes = part.state_changed
  end
  write(parts)
end

-- Reads the secret that seals the places of reservations, or stores a new one. It has no expiry: without it, nobody could
-- find the states of open reservations.
local function secret(out, parts)
  local part = parts[1]
  local stored = checked(try('GET', part.key))
  if not stored then
    stored = 'K\1' .. slice(part.blob, part.policy.size + 1)
    checked(try('SET', part.key, stored, 'NX'))
  end
  if #stored ~= 34 or slice(stored, 1, 2) ~= 'K\1' then error(FOREIGN, 0) end
  out[#out + 1] = slice(stored, 3)
end

return function(out, parts, op)
  if op == SECRET_OP then return secret(out, parts) end
  if op == RESERVE then return reserve(out, parts) end
  if op == LEASE_OP then return lease(out, parts) end
  return change_all(out, parts, op)
end
