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
-- A field that has its default is not stored. Depends on now.lua, text.lua, window.lua.
local FOREVER = 4503599627370496
local FAILURES_KEPT = 5
local STREAM_LENGTH = 10000

local NUMBERS = {
  generation = 0, changed_ms = 0, streak = 0, trips = 0, opened_ms = -1, probe_ms = -1, probe_successes = 0,
  override_until_ms = -1, held_ms = 0, hold_ms = 0, ok = 0, failed = 0, slow = 0, width_ms = 0, expires_ms = 0, listed = 0,
}
local TEXTS = {
  state = '', leases = '', override = 'none', override_reason = '', reason = '', numbers = '{}', failures = '',
  window = '',
}

local seq_key, stream_key, index_key = KEYS[1], KEYS[2], KEYS[3]
local base = string.sub(seq_key, 1, -4)
local now = clock_ms()
local sequence = tonumber(redis.call('GET', seq_key) or '0')
local sequence_stored = sequence
local announced = {}
local touched = {}
local loaded = {}

local function fresh(key)
  local breaker = { redis_key = key, key = string.sub(key, #base + 3), was = {}, had = {}, buckets = {} }
  for name, default in pairs(NUMBERS) do
    breaker[name] = default
  end
  for name, default in pairs(TEXTS) do
    breaker[name] = default
  end
  breaker.state = 'closed'
  breaker.held_leases = {}
  return breaker
end

local function load(key)
  local breaker = loaded[key]
  if breaker then
    return breaker
  end
  breaker = fresh(key)
  local flat = redis.call('HGETALL', key)
  local was = breaker.was
  for at = 1, #flat, 2 do
    was[flat[at]] = flat[at + 1]
  end
  breaker.stored = #flat > 0
  breaker.known = breaker.stored and tonumber(was.expires_ms or '0') > now
  if breaker.known then
    for name, text in pairs(was) do
      if NUMBERS[name] then
        local number = tonumber(text)
        breaker[name] = number
        breaker.had[name] = number
      elseif TEXTS[name] then
        breaker[name] = text
      end
    end
    breaker.buckets = window_unpack(breaker.window)
    for token, deadline in string.gmatch(breaker.leases, '(%S+)=(%d+)') do
      breaker.held_leases[token] = tonumber(deadline)
    end
  elseif breaker.stored then
    -- Past its time: nothing of it counts, but all of it must be overwritten.
    for name, text in pairs(was) do
      if NUMBERS[name] then
        breaker.had[name] = tonumber(text)
      end
    end
    breaker.listed = tonumber(was.listed or '0')
  end
  loaded[key] = breaker
  return breaker
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

-- What other processes need to know of a breaker that is not plainly closed; '' when it is.
local function entry(breaker)
  if breaker.plain then
    return ''
  end
  return cjson.encode({
    generation = whole(breaker.generation),
    state = breaker.state,
    override = breaker.override,
    override_until_ms = whole(breaker.override_until_ms),
    override_reason = breaker.override_reason,
    probe_ms = whole(breaker.probe_ms),
    held_ms = whole(breaker.held_ms),
    hold_ms = whole(breaker.hold_ms),
    changed_ms = whole(breaker.changed_ms),
    ramp_ms = whole(breaker.ramp_ms),
    reason = breaker.reason,
    numbers = breaker.numbers,
  })
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

-- Only what changed is made into text and written: for most calls the window and a number or two.
local function write_breaker(breaker)
  local was, had, set, unset = breaker.was, breaker.had, {}, {}
  for name, default in pairs(NUMBERS) do
    local value = breaker[name]
    if value ~= (had[name] or default) then
      if value == default then
        unset[#unset + 1] = name
      else
        set[#set + 1] = name
        set[#set + 1] = whole(value)
      end
    elseif was[name] and value == default then
      unset[#unset + 1] = name
    end
  end
  if breaker.leases ~= '' or next(breaker.held_leases) then
    breaker.leases = lease_text(breaker)
  end
  breaker.window = window_pack(breaker)
  for name, default in pairs(TEXTS) do
    local text = breaker[name]
    if text ~= (was[name] or default) then
      if text == default then
        unset[#unset + 1] = name
      else
        set[#set + 1] = name
        set[#set + 1] = text
      end
    end
  end
  if #unset > 0 then
    redis.call('HDEL', breaker.redis_key, unpack(unset))
  end
  if #set > 0 then
    redis.call('HSET', breaker.redis_key, unpack(set))
  end
  if breaker.expires_ms >= FOREVER then
    redis.call('PERSIST', breaker.redis_key)
  else
    redis.call('PEXPIRE', breaker.redis_key, whole(breaker.expires_ms - now))
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
