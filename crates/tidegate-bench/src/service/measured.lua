-- Writes at the end: requests, microseconds, errors, and the percentiles 50, 99 and 99.9 in microseconds.

function done(summary, latency)
  local errors = summary.errors
  local sum = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format("measured %d %d %d %d %d %d\n", summary.requests, summary.duration, sum,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end

