-- Counts responses by backend and prints one line of JSON at the end.
local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

-- The argument: milliseconds that a connection waits before each request.
function init(args)
  backends = {}
  local pause = tonumber(args[1])
  if pause then
    function delay()
      return pause
    end
  end
end

function response(_, headers)
  local backend = headers["X-Backend"] or "unknown"
  backends[backend] = (backends[backend] or 0) + 1
end

function done(summary, latency)
  local total = {}
  for _, thread in ipairs(threads) do
    for backend, count in pairs(thread:get("backends")) do
      total[backend] = (total[backend] or 0) + count
    end
  end
  local parts = {}
  for backend, count in pairs(total) do
    table.insert(parts, string.format('"%s":%d', backend, count))
  end
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"duration_us":%d,"bytes":%d,' ..
    '"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,' ..
    '"p50_us":%d,"p99_us":%d,"p999_us":%d,"max_us":%d,"backends":{%s}}\n',
    summary.requests, summary.duration, summary.bytes,
    errors.connect, errors.read, errors.write, errors.status, errors.timeout,
    latency:percentile(50), latency:percentile(99),
    latency:percentile(99.9), latency.max,
    table.concat(parts, ",")))
end
