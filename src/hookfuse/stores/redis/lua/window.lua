-- window.lua: the sliding window of a breaker, packed into one string.
--
-- A bucket is 28 bytes: start_ms (6), ok, failed, slow, timed (4 each), latency_ms (6). The newest is the last. See
-- core/window.py, which this translates.
local BUCKET = '>I6I4I4I4I4I6'
local BUCKET_SIZE = 28

local function window_unpack(packed)
  local buckets = {}
  for at = 1, #packed, BUCKET_SIZE do
    local start, ok, failed, slow, timed, latency = struct.unpack(BUCKET, packed, at)
    buckets[#buckets + 1] = {
      start = start, ok = ok, failed = failed, slow = slow, timed = timed, latency = latency,
      text = string.sub(packed, at, at + BUCKET_SIZE - 1),
    }
  end
  return buckets
end

local function bucket_pack(bucket)
  return struct.pack(BUCKET, bucket.start, bucket.ok, bucket.failed, bucket.slow, bucket.timed, bucket.latency)
end

local function window_pack(breaker)
  local parts = {}
  for at, bucket in ipairs(breaker.buckets) do
    parts[at] = bucket.text or bucket_pack(bucket)
  end
  return table.concat(parts)
end

-- Drop what is too old, what lies in the future (the clock went back), or has another width.
local function window_slide(breaker, policy, now)
  if breaker.width_ms ~= policy.bucket_ms then
    breaker.width_ms = policy.bucket_ms
    breaker.buckets = {}
    return
  end
  local buckets, kept = breaker.buckets, {}
  local oldest = now - policy.window_ms
  for _, bucket in ipairs(buckets) do
    if bucket.start >= oldest and bucket.start <= now then
      kept[#kept + 1] = bucket
    end
  end
  if #kept ~= #buckets then
    breaker.buckets = kept
  end
end

local function window_add(breaker, now, ok, failed, slow, timed, latency)
  local buckets = breaker.buckets
  local newest = buckets[#buckets]
  if not newest or now >= newest.start + breaker.width_ms then
    newest = { start = now, ok = 0, failed = 0, slow = 0, timed = 0, latency = 0 }
    buckets[#buckets + 1] = newest
  end
  newest.text = nil
  newest.ok = newest.ok + ok
  newest.failed = newest.failed + failed
  newest.slow = newest.slow + slow
  newest.timed = newest.timed + timed
  newest.latency = newest.latency + latency
end

local function window_counts(breaker)
  local counts = { ok = 0, failed = 0, slow = 0, timed = 0, latency = 0 }
  for _, bucket in ipairs(breaker.buckets) do
    counts.ok = counts.ok + bucket.ok
    counts.failed = counts.failed + bucket.failed
    counts.slow = counts.slow + bucket.slow
    counts.timed = counts.timed + bucket.timed
    counts.latency = counts.latency + bucket.latency
  end
  return counts
end

-- The totals as `window_slide` would leave them; looking changes nothing.
local function window_counts_at(breaker, policy, now)
  local buckets, width = breaker.buckets, breaker.width_ms
  window_slide(breaker, policy, now)
  local counts = window_counts(breaker)
  breaker.buckets, breaker.width_ms = buckets, width
  return counts
end
