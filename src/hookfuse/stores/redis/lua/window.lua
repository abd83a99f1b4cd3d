-- window.lua: the sliding window of a breaker, packed into one string. See core/window.py, which this translates.
--
-- First what every record needs: the totals of the sealed buckets (ok, failed, slow, timed: 5 bytes each; latency_ms:
-- 6), and the newest bucket (start_ms: 6; ok, failed, slow, timed: 4 each; latency_ms: 6). Then the sealed buckets, the
-- oldest first. Thanks to the totals a record unpacks no bucket that it does not drop.
local HEAD, HEAD_SIZE = '>I5I5I5I5I6I6I4I4I4I4I6', 54
local BUCKET, BUCKET_SIZE = '>I6I4I4I4I4I6', 28

local function window_clear(window)
  window.start_ms, window.until_ms = 0, 0
  window.ok, window.failed, window.slow, window.timed, window.latency = 0, 0, 0, 0, 0
  window.past = ''
  window.past_ok, window.past_failed, window.past_slow, window.past_timed, window.past_latency = 0, 0, 0, 0, 0
end

local function window_unpack(packed, width_ms)
  if packed == '' then
    local window = { width_ms = width_ms }
    window_clear(window)
    return window
  end
  local past_ok, past_failed, past_slow, past_timed, past_latency, start_ms, ok, failed, slow, timed, latency =
    struct.unpack(HEAD, packed)
  return {
    width_ms = width_ms, start_ms = start_ms, until_ms = start_ms + width_ms,
    ok = ok, failed = failed, slow = slow, timed = timed, latency = latency,
    past = string.sub(packed, HEAD_SIZE + 1),
    past_ok = past_ok, past_failed = past_failed, past_slow = past_slow, past_timed = past_timed,
    past_latency = past_latency,
  }
end

local function window_pack(window)
  if window.until_ms == 0 then
    return ''
  end
  return struct.pack(
    HEAD, window.past_ok, window.past_failed, window.past_slow, window.past_timed, window.past_latency,
    window.start_ms, window.ok, window.failed, window.slow, window.timed, window.latency
  ) .. window.past
end

-- Take a sealed bucket, by its place in the past, off the totals. Returns what it counted.
local function window_unseal(window, at)
  local start_ms, ok, failed, slow, timed, latency = struct.unpack(BUCKET, window.past, at)
  window.past_ok = window.past_ok - ok
  window.past_failed = window.past_failed - failed
  window.past_slow = window.past_slow - slow
  window.past_timed = window.past_timed - timed
  window.past_latency = window.past_latency - latency
  return start_ms, ok, failed, slow, timed, latency
end

-- The clock went back: what began in the future is dropped, and the newest of the rest goes on.
local function window_go_back(window, now)
  while window.start_ms > now do
    if window.past == '' then
      window_clear(window)
      return
    end
    window.start_ms, window.ok, window.failed, window.slow, window.timed, window.latency =
      window_unseal(window, #window.past - BUCKET_SIZE + 1)
    window.until_ms = window.start_ms + window.width_ms
    window.past = string.sub(window.past, 1, -BUCKET_SIZE - 1)
  end
end

-- Drop what is too old, what lies in the future (the clock went back), or has another width.
local function window_slide(window, policy, now)
  if window.width_ms ~= policy.bucket_ms then
    window.width_ms = policy.bucket_ms
    window_clear(window)
    return
  end
  if window.start_ms > now then
    window_go_back(window, now)
  end
  local oldest = now - policy.window_ms
  if window.start_ms < oldest then
    window_clear(window)
  end
  while window.past ~= '' and struct.unpack('>I6', window.past) < oldest do
    window_unseal(window, 1)
    window.past = string.sub(window.past, BUCKET_SIZE + 1)
  end
end

-- Seal the newest bucket, if there is one, and begin another.
local function window_begin(window, now)
  if window.until_ms > 0 then
    window.past = window.past .. struct.pack(
      BUCKET, window.start_ms, window.ok, window.failed, window.slow, window.timed, window.latency
    )
    window.past_ok = window.past_ok + window.ok
    window.past_failed = window.past_failed + window.failed
    window.past_slow = window.past_slow + window.slow
    window.past_timed = window.past_timed + window.timed
    window.past_latency = window.past_latency + window.latency
  end
  window.start_ms, window.until_ms = now, now + window.width_ms
  window.ok, window.failed, window.slow, window.timed, window.latency = 0, 0, 0, 0, 0
end

-- Count outcomes at `now`; slide first.
local function window_add(window, now, ok, failed, slow, timed, latency)
  if now >= window.until_ms then
    window_begin(window, now)
  end
  window.ok = window.ok + ok
  window.failed = window.failed + failed
  window.slow = window.slow + slow
  window.timed = window.timed + timed
  window.latency = window.latency + latency
end

-- The totals as of the last slide.
local function window_counts(window)
  return {
    ok = window.past_ok + window.ok,
    failed = window.past_failed + window.failed,
    slow = window.past_slow + window.slow,
    timed = window.past_timed + window.timed,
    latency = window.past_latency + window.latency,
  }
end
