-- A few open leases in front of a state, and what a settle and a grant do to them.
--
-- KEYS   not read
-- ARGV   not read
-- reply  none: functions on bytes
--
--   "T", version of such keys (1), number of leases (1); for each lease, in the order of their ends, then of their grants:
--   end (7), units (5), time of the grant (8), nonce (16); then the state: a string, or field "h" of a hash
--
-- Most keys with leases have no holds and no override. So a lease does not change the form of its key, and one read finds
-- the state and the leases. With more leases, or with holds, a key has the form in `reservation_records.lua`.

local LEASED, AT_LEASES = 'T\3', 4
local LEASE_RECORD, LEASE_SIZE, AT_LEASE_NONCE = '>I7I5i8c16', 36, 20
local FEW_LEASES = 32
local pack, unpack, slice, find = struct.pack, struct.unpack, string.sub, string.find

-- Returns the leases in front of a state, their units, the first and the last end, and the length of all of it. Returns nil if
-- the bytes are not complete.
local function read_leases(s)
  local size, leased, ends, units = (string.byte(s, 3) or 0) * LEASE_SIZE, 0, 0, 0
  if size == 0 or #s < size + AT_LEASES then return nil end
  for at = AT_LEASES, size + AT_LEASES - 1, LEASE_SIZE do
    ends, units = unpack('>I7I5', s, at)
    leased = leased + units
  end
  return slice(s, AT_LEASES, AT_LEASES + size - 1), leased, (unpack('>I7', s, AT_LEASES)), ends, size + AT_LEASES - 1
end

-- Removes a lease of which `spent` units were spent. Returns the other leases and its units; nil, if it is not open or has
-- fewer units.
local function settle_lease(leases, nonce, spent)
  local at = find(leases, nonce, 1, true)
  if not at or (at - 1 - AT_LEASE_NONCE) % LEASE_SIZE > 0 then return nil end
  local first = at - AT_LEASE_NONCE
  local units = unpack('>I5', leases, first + 7)
  if spent > units then return nil end
  return slice(leases, 1, first - 1) .. slice(leases, first + LEASE_SIZE), units
end

-- Adds a lease of at most `asked` units, if `least` of `free` units fit. Returns all leases and the granted units; nil, if they
-- don't fit, or if there are too many leases.
local function grant_lease(leases, free, least, asked, most, granted_at, ttl, nonce)
  local size = #leases
  local count = size / LEASE_SIZE
  if least > free or count >= most or count >= FEW_LEASES then return nil end
  local granted, ends = math.ceil(free / (2 * (count + 1))), granted_at + ttl
  if granted > asked then granted = asked end
  if granted < least then granted = least end
  local record = pack(LEASE_RECORD, ends, granted, granted_at, nonce)
  local at = size
  while at > 0 and unpack('>I7', leases, at - LEASE_SIZE + 1) > ends do at = at - LEASE_SIZE end
  if at == size then return leases .. record, granted end
  return slice(leases, 1, at) .. record .. slice(leases, at + 1), granted
end

-- Returns the bytes in front of a state.
local function lease_header(leases)
  return leases == '' and '' or LEASED .. string.char(#leases / LEASE_SIZE) .. leases
end

-- Returns the reply to a lease or a settle that was decided; `decision` is its end.
local function lease_reply(is_lease, earlier, granted, decision)
  if not is_lease then return '\0\1' .. decision end
  return pack('>BBI7', 0, earlier and 2 or 0, granted) .. decision .. '\0\0\0\0\0\0\0'
end
