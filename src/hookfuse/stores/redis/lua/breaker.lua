-- breaker.lua: a breaker as a hash that HGETALL explains, and the writes of a whole script call, done last.
--
--   state, reason, numbers            closed | open | half_open | disabled, and what brought it there
--   generation, changed_ms, trips     of the last transition
--   streak, window, width_ms          failures in a row; the counts, packed (window.lua), and the width of a bucket
--   opened_ms, probe_ms               since when it is open, when a probe may go
--   held_ms, hold_ms                  from when and until when a Retry-After holds it
--   leases, probe_successes           probes in flight as "token=deadline_ms ..."; successes of this half_open
--   override, override_until_ms, override_reason
--   ok, failed, slow                  totals for ever
--   failures                          the last five, a line each: at_ms {"type": ..., "message": ...}
--   expires_ms                        when it may be forgotten; the key's TTL says the same
--   listed                            1 while it is in the shard's index of unhealthy breakers
--
-- A field that has its default is not stored. Depends on now.lua, text.lua, window.lua, bell.lua.
local FOREVER = 4503599627370496
local STREAM_LENGTH = 10000

-- The state has no default here: it is always stored, for whoever reads the hash.
local DEFAULTS = {
  state = '', leases = '', override = 'none', override_reason = '', reason = '', numbers = '{}', failures = '',
  window = '', generation = 0, changed_ms = 0, streak = 0, trips = 0, opened_ms = -1, probe_ms = -1,
  probe_successes = 0, override_until_ms = -1, held_ms = 0, hold_ms = 0, ok = 0, failed = 0, slow = 0,
  width_ms = 0, expires_ms = 0, listed = 0,
}
local DEFAULTED = { __index = DEFAULTS }
local IS_NUMBER = {}
for name, default in pairs(DEFAULTS) do
  IS_NUMBER[name] = type(default) == 'number'
end

local TOLD = {
  'generation', 'state', 'override', 'override_until_ms', 'override_reason', 'probe_ms', 'held_ms', 'hold_ms',
  'changed_ms', 'reason', 'numbers',
}

local seq_key, stream_key, index_key = KEYS[1], KEYS[2], KEYS[3]
local base = string.sub(seq_key, 1, -4)
local now = clock_ms()
local sequence = tonumber(redis.call('GET', seq_key) or '0')
local sequence_stored = sequence
local announced = {}
local touched = {}
local loaded = {}

-- Reads the hash once. `was` is what is stored, so that only what changed is written.
local function load(key)
  local breaker = loaded[key]
  if breaker then
    return breaker
  end
  local flat = redis.call('HGETALL', key)
  local was = {}
  for at = 1, #flat, 2 do
    local name, text = flat[at], flat[at + 1]
    was[name] = IS_NUMBER[name] and tonumber(text) or text
  end
  breaker = setmetatable({
    redis_key = key, key = string.sub(key, #base + 3), state = 'closed', held_leases = {}, was = was,
  }, DEFAULTED)
  breaker.stored = #flat > 0
  breaker.known = (was.expires_ms or 0) > now
  if breaker.known then
    for name, value in pairs(was) do
      breaker[name] = value
    end
    for token, deadline in string.gmatch(breaker.leases, '(%S+)=(%d+)') do
      breaker.held_leases[token] = tonumber(deadline)
    end
  elseif breaker.stored then
    -- Past its time: nothing of it counts, but it may be in the index still.
    breaker.stale, breaker.was, breaker.listed = true, {}, was.listed
  end
  loaded[key] = breaker
  return breaker
end

-- The window, unpacked when it is first asked for.
local function window_of(breaker)
  if not breaker.unpacked then
    breaker.unpacked = window_unpack(breaker.window, breaker.width_ms)
  end
  return breaker.unpacked
end

-- Should the sequence be lost while the stream is not, go on after the stream; reading it checks its type too.
local function follow_stream()
  if #announced == 0 then
    local newest = redis.call('XREVRANGE', stream_key, '+', '-', 'COUNT', 1)[1]
    if newest then
      sequence = math.max(sequence, tonumber(string.match(newest[1], '^(%d+)')))
    end
  end
end

local function next_generation()
  follow_stream()
  sequence = math.max(sequence + 1, now)
  return sequence
end

-- Remember that a breaker changed; nothing is written before `commit`.
local function touch(breaker)
  if not breaker.touched then
    breaker.touched = true
    touched[#touched + 1] = breaker
  end
end

-- What other processes need to know of a breaker that is not plainly closed, without defaults; '' when it is.
local function entry(breaker)
  if breaker.plain then
    return ''
  end
  local told = { ramp_ms = whole(breaker.ramp_ms) }
  for _, name in ipairs(TOLD) do
    local value = breaker[name]
    if value ~= DEFAULTS[name] then
      told[name] = IS_NUMBER[name] and whole(value) or value
    end
  end
  return cjson.encode(told)
end

-- Tell the other processes: a transition, or (without one) that a Retry-After holds the breaker.
local function announce(breaker, transition)
  follow_stream()
  breaker.news = true
  announced[#announced + 1] = { breaker = breaker, transition = transition, position = sequence }
end

-- For the reply: what `entry` says if this command changed it, else nothing.
local function news(breaker)
  if not breaker.news then
    return ''
  end
  breaker.news = nil
  return breaker.plain and 'plain' or entry(breaker)
end

local function lease_text(breaker)
  local parts = {}
  for token, deadline in pairs(breaker.held_leases) do
    parts[#parts + 1] = token .. '=' .. whole(deadline)
  end
  table.sort(parts)
  return table.concat(parts, ' ')
end

-- Only what changed is written: for most calls the window and a number or two.
local function write_breaker(breaker)
  local key, was, set, unset = breaker.redis_key, breaker.was, {}, {}
  if breaker.leases ~= '' or next(breaker.held_leases) then
    breaker.leases = lease_text(breaker)
  end
  if breaker.unpacked then
    breaker.window, breaker.width_ms = window_pack(breaker.unpacked), breaker.unpacked.width_ms
  end
  for name, value in pairs(breaker) do
    local default = DEFAULTS[name]
    if default and value ~= was[name] then
      if value ~= default then
        -- A number is written with 17 digits, which for whole ones is exact.
        set[#set + 1] = name
        set[#set + 1] = value
      elseif was[name] then
        unset[#unset + 1] = name
      end
    end
  end
  if breaker.stale then
    redis.call('DEL', key)
  end
  if #unset > 0 then
    redis.call('HDEL', key, unpack(unset))
  end
  if #set > 0 then
    redis.call('HSET', key, unpack(set))
  end
  if breaker.expires_ms >= FOREVER then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, breaker.expires_ms - now)
  end
end

-- Write everything that this call changed. What can fail (types, memory) is read or written first.
local function commit()
  local lists = #announced > 0
  for _, breaker in ipairs(touched) do
    lists = lists or (breaker.plain and (breaker.listed == 1 or not breaker.stored))
  end
  if lists then
    redis.call('HLEN', index_key)
  end
  if #announced > 0 then
    ring(base)
  end
  for _, each in ipairs(announced) do
    local breaker, transition = each.breaker, each.transition
    local fields = { 'key', breaker.key, 'entry', entry(breaker) }
    local id = whole(each.position) .. '-*'
    if transition then
      id = whole(transition.generation) .. '-0'
      for name, text in pairs(transition.fields) do
        fields[#fields + 1] = name
        fields[#fields + 1] = text
      end
    end
    redis.call('XADD', stream_key, 'MAXLEN', '~', STREAM_LENGTH, id, unpack(fields))
  end
  if sequence ~= sequence_stored then
    redis.call('SET', seq_key, whole(sequence))
  end
  for _, each in ipairs(announced) do
    local breaker = each.breaker
    if not breaker.plain then
      breaker.listed = 1
      redis.call('HSET', index_key, breaker.key, entry(breaker))
    end
  end
  for _, breaker in ipairs(touched) do
    -- One whose hash had run out may have left its entry behind.
    if breaker.plain and (breaker.listed == 1 or not breaker.stored) then
      breaker.listed = 0
      redis.call('HDEL', index_key, breaker.key)
    end
    write_breaker(breaker)
  end
end
