-- now.lua: the one clock. Every instant in these scripts comes from here; tests swap this file.
local function clock_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
