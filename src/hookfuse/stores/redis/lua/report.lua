-- report.lua: reads the eight arguments of a report, as record.lua and batch.lua get them.
local function apply_report(key, policy, arguments, at, made)
  local report = {
    kind = arguments[at],
    generation = tonumber(arguments[at + 1]),
    token = arguments[at + 2],
    latency = tonumber(arguments[at + 3]),
    slow = tonumber(arguments[at + 4]),
    hold_ms = tonumber(arguments[at + 5]),
    failure = arguments[at + 6],
    draw = tonumber(arguments[at + 7]),
  }
  local breaker = load(key)
  if report.kind ~= 'ignored' or breaker.known then
    record(breaker, policy, report, made)
  end
end
