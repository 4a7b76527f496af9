-- Posts checks with keys drawn at random out of 100,000, as redis-benchmark does.
-- The requests are built in advance, because wrk shares the cores with the server.

local requests = {}

function init(args)
  math.randomseed(os.time())
  local headers = { ["Content-Type"] = "application/json" }
  for number = 0, 99999 do
    local body = string.format('{"policy":"%s","key":"key:%012d","cost":1}', args[1], number)
    requests[number] = wrk.format("POST", "/v1/check", headers, body)
  end
end

function request()
  return requests[math.random(0, 99999)]
end
