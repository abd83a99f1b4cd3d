-- machine.lua: core/machine.py in Lua, in the same order and with the same names; differential tests hold it to that.
--
-- Depends on breaker.lua, policy.lua, window.lua, text.lua. A function changes the breaker's table; `commit` writes.
local RAMP_START = 0.1
local MOST_GROWTHS = 64
-- Of five lines the last four: with the new one, the last five failures are kept.
local LAST_FOUR = '\n([^\n]*\n[^\n]*\n[^\n]*\n[^\n]*)$'

local function share(breaker, policy)
  if breaker.state ~= 'closed' or breaker.generation == 0 then
    return 1
  end
  local since = now - breaker.changed_ms
  if since >= 0 and since < policy.ramp_ms then
    return RAMP_START + (1 - RAMP_START) * since / policy.ramp_ms
  end
  return 1
end

-- One that is to begin in the future is from before the clock went back.
local function held(breaker)
  return breaker.held_ms <= now and now < breaker.hold_ms
end

local function hold(breaker, until_ms)
  if not held(breaker) or until_ms > breaker.hold_ms then
    breaker.held_ms = now
    breaker.hold_ms = until_ms
  end
end

local function keep(breaker, policy)
  if breaker.hold_ms > 0 and not held(breaker) then
    breaker.held_ms = 0
    breaker.hold_ms = 0
  end
  local closed = breaker.state == 'closed'
  local forced = breaker.override ~= 'none'
  if forced or breaker.state == 'disabled' then
    breaker.expires_ms = FOREVER
  elseif not closed or breaker.streak > 0 then
    breaker.expires_ms = math.max(now + policy.forget_ms, breaker.probe_ms)
    for _, deadline in pairs(breaker.held_leases) do
      breaker.expires_ms = math.max(breaker.expires_ms, deadline)
    end
  else
    local kept = policy.quiet_ms
    if breaker.trips > 0 then
      kept = policy.remember_ms
    end
    breaker.expires_ms = math.max(now + kept, breaker.hold_ms)
  end
  breaker.known = true
  breaker.ramp_ms = policy.ramp_ms
  breaker.plain = closed and not forced and breaker.hold_ms == 0 and share(breaker, policy) == 1
  touch(breaker)
end

local function change(breaker, policy, after, reason, numbers, actor, made)
  local before = breaker.state
  breaker.state = after
  breaker.generation = next_generation()
  if after ~= before then
    breaker.changed_ms = now
  end
  keep(breaker, policy)
  local transition = {
    generation = breaker.generation,
    fields = {
      before = before, after = after, at_ms = whole(now), reason = reason, numbers = numbers, actor = actor,
      override = breaker.override,
    },
  }
  announce(breaker, transition)
  made[#made + 1] = { breaker.key, whole(breaker.generation), before, after, whole(now), reason, numbers, actor,
    breaker.override }
end

local function clean(breaker)
  breaker.streak = 0
  window_clear(window_of(breaker))
  breaker.opened_ms = -1
  breaker.probe_ms = -1
  breaker.held_leases = {}
  breaker.probe_successes = 0
  breaker.held_ms = 0
  breaker.hold_ms = 0
  breaker.reason = ''
  breaker.numbers = '{}'
end

local function half_open(breaker, policy, reason, actor, made)
  if breaker.state == 'disabled' then
    breaker.trips = 0
    breaker.streak = 0
    window_clear(window_of(breaker))
  end
  breaker.probe_ms = now
  breaker.held_leases = {}
  breaker.probe_successes = 0
  change(breaker, policy, 'half_open', reason, '{}', actor, made)
end

local function clear_override(breaker)
  breaker.override = 'none'
  breaker.override_until_ms = -1
  breaker.override_reason = ''
end

local function unforce(breaker, policy, reason, actor, made)
  local was_open = breaker.override == 'open'
  clear_override(breaker)
  clean(breaker)
  if was_open then
    breaker.opened_ms = now
    half_open(breaker, policy, reason, actor, made)
  else
    change(breaker, policy, 'closed', reason, '{}', actor, made)
  end
end

-- Every step begins here. If the clock went back behind the last change, what waits is due now and no lease is known to
-- live; an override that has run out ends.
local function begin(breaker, policy, made)
  if breaker.changed_ms > now then
    breaker.changed_ms = now
    breaker.held_leases = {}
    breaker.opened_ms = math.min(breaker.opened_ms, now)
    breaker.probe_ms = math.min(breaker.probe_ms, now)
  end
  if breaker.override_until_ms >= 0 and now >= breaker.override_until_ms then
    unforce(breaker, policy, 'override_ended', 'breaker', made)
  end
end

local function probe_due(breaker)
  return breaker.probe_ms >= 0 and now >= breaker.probe_ms
end

-- Returns the deadlines of the leases that are left, the earliest first.
local function drop_lost_leases(breaker)
  local deadlines = {}
  for token, deadline in pairs(breaker.held_leases) do
    if now >= deadline then
      breaker.held_leases[token] = nil
    else
      deadlines[#deadlines + 1] = deadline
    end
  end
  table.sort(deadlines)
  return deadlines
end

local function shut(breaker, policy, after, for_ms, actor, made)
  breaker.opened_ms = now
  breaker.probe_ms = -1
  if for_ms >= 0 then
    breaker.probe_ms = now + for_ms
  end
  breaker.held_leases = {}
  breaker.probe_successes = 0
  breaker.held_ms = 0
  breaker.hold_ms = 0
  change(breaker, policy, after, breaker.reason, breaker.numbers, actor, made)
end

local function cool_off(breaker, policy, draw)
  local grown = policy.cool_off_ms * policy.cool_off_factor ^ math.min(breaker.trips - 1, MOST_GROWTHS)
  return math.floor(math.min(grown, policy.cool_off_max_ms) * (1 + policy.jitter * (2 * draw - 1)))
end

local function trip(breaker, policy, reason, numbers, draw, made)
  local was_healthy = breaker.state == 'closed' and now - breaker.changed_ms >= policy.healthy_ms
  if was_healthy then
    breaker.trips = 1
  else
    breaker.trips = breaker.trips + 1
  end
  breaker.reason = reason
  breaker.numbers = numbers
  if policy.disable_after >= 0 and breaker.trips >= policy.disable_after then
    shut(breaker, policy, 'disabled', policy.reenable_ms, 'breaker', made)
  else
    shut(breaker, policy, 'open', cool_off(breaker, policy, draw), 'breaker', made)
  end
end

local function judge(breaker, policy, counts, streak, draw, made)
  for _, rule in ipairs(policy.rules) do
    local found = BREACHED[rule.name](rule, counts, streak)
    if found then
      trip(breaker, policy, rule.name, figures(found), draw, made)
      return
    end
  end
end

local function close(breaker, policy, reason, numbers, made)
  clean(breaker)
  change(breaker, policy, 'closed', reason, numbers, 'breaker', made)
end

local function judge_probe(breaker, policy, report, made)
  if report.kind == 'failure' then
    trip(breaker, policy, 'probe_failed', '{}', report.draw, made)
  elseif report.latency >= 0 and report.latency >= policy.limit_ms then
    local found = { { 'latency', report.latency / 1000 }, { 'limit', policy.limit_ms / 1000 } }
    trip(breaker, policy, 'probe_slow', figures(found), report.draw, made)
  else
    breaker.probe_successes = breaker.probe_successes + 1
    if breaker.probe_successes >= policy.close_after then
      close(breaker, policy, 'probe_succeeded', '{}', made)
    end
  end
end

local function count_outcome(breaker, policy, report)
  local window = window_of(breaker)
  window_slide(window, policy, now)
  local failed, timed, latency = 0, 0, 0
  if report.kind == 'failure' then
    failed = 1
  end
  if report.latency >= 0 then
    timed = 1
    latency = report.latency
  end
  window_add(window, now, 1 - failed, failed, report.slow, timed, latency)
  if failed == 0 then
    breaker.streak = 0
    return
  end
  breaker.streak = breaker.streak + 1
  local line = whole(now) .. ' ' .. report.failure
  local before = string.match(breaker.failures, LAST_FOUR) or breaker.failures
  breaker.failures = before == '' and line or before .. '\n' .. line
end

-- Answers are flat lists of strings: see each script's Returns.
local function answer(breaker, policy, allowed, probe, reason, until_ms, would_deny)
  local wait, why, numbers = '', '', '{}'
  local flow = (allowed and not would_deny) and share(breaker, policy) or 1
  if not allowed then
    if until_ms and until_ms >= 0 then
      wait = whole(until_ms - now)
    end
    why, numbers = breaker.reason, breaker.numbers
    if reason == 'forced_open' then
      why, numbers = breaker.override_reason, '{}'
    end
  end
  return {
    allowed and '1' or '0', probe and '1' or '0', reason, breaker.state, whole(sequence),
    numeral(flow), would_deny and '1' or '0', whole(now), wait, why, numbers,
  }
end

local function deny(breaker, policy, reason, until_ms)
  if reason ~= 'forced_open' and not policy.enforced then
    return answer(breaker, policy, true, false, '', nil, true)
  end
  return answer(breaker, policy, false, false, reason, until_ms, false)
end

local function admit(breaker, policy, token, made)
  begin(breaker, policy, made)
  if breaker.override == 'open' then
    return deny(breaker, policy, 'forced_open', breaker.override_until_ms)
  end
  if breaker.override == 'closed' then
    return answer(breaker, policy, true, false, '', nil, false)
  end
  if breaker.state == 'closed' then
    if held(breaker) then
      return deny(breaker, policy, 'throttled', breaker.hold_ms)
    end
    return answer(breaker, policy, true, false, '', nil, false)
  end
  if breaker.state == 'open' then
    if not probe_due(breaker) then
      return deny(breaker, policy, 'open', breaker.probe_ms)
    end
    half_open(breaker, policy, 'probe_due', 'breaker', made)
  elseif breaker.state == 'disabled' then
    if not probe_due(breaker) then
      return deny(breaker, policy, 'disabled', breaker.probe_ms)
    end
    half_open(breaker, policy, 'reenabled', 'breaker', made)
  else
    local deadlines = drop_lost_leases(breaker)
    local due = breaker.probe_ms
    if #deadlines >= policy.probes then
      due = math.max(due, deadlines[#deadlines - policy.probes + 1])
    end
    if now < due then
      return deny(breaker, policy, 'probing', due)
    end
  end
  breaker.held_leases[token] = now + policy.probe_lease_ms
  keep(breaker, policy)
  return answer(breaker, policy, true, true, '', nil, false)
end

local function release(breaker, token)
  if breaker.known and breaker.held_leases[token] then
    breaker.held_leases[token] = nil
    touch(breaker)
  end
end

-- report: kind, generation, token, latency (-1: none), slow (0 or 1), hold_ms, failure (JSON), draw.
local function record(breaker, policy, report, made)
  if report.kind == 'ignored' then
    -- First of all: a clock that went back must not lose what is given back.
    release(breaker, report.token)
    begin(breaker, policy, made)
    return
  end
  begin(breaker, policy, made)
  if report.kind == 'ok' then
    breaker.ok = breaker.ok + 1
  elseif report.kind == 'failure' then
    breaker.failed = breaker.failed + 1
  end
  if report.kind ~= 'throttled' then
    breaker.slow = breaker.slow + report.slow
  end
  local newest = report.generation >= breaker.generation and breaker.override == 'none'
  if newest and breaker.state == 'closed' then
    if report.kind == 'throttled' then
      hold(breaker, now + report.hold_ms)
      keep(breaker, policy)
      announce(breaker)
    else
      count_outcome(breaker, policy, report)
      if policy.inline then
        judge(breaker, policy, window_counts(window_of(breaker)), breaker.streak, report.draw, made)
      end
    end
  elseif newest and breaker.state == 'half_open' then
    drop_lost_leases(breaker)
    if breaker.held_leases[report.token] then
      breaker.held_leases[report.token] = nil
      if report.kind == 'throttled' then
        breaker.probe_ms = math.max(breaker.probe_ms, now + report.hold_ms)
      else
        count_outcome(breaker, policy, report)
        judge_probe(breaker, policy, report, made)
      end
    end
  end
  keep(breaker, policy)
end

-- Successes that need no judging are counted at once: no failure in sight, nothing to reset. False: do it singly.
local function record_quickly(breaker, policy, times, generation, latency)
  if
    breaker.state ~= 'closed' or breaker.override ~= 'none' or breaker.streak > 0 or policy.judges_latency
    or generation < breaker.generation or breaker.changed_ms > now
  then
    return false
  end
  local window = window_of(breaker)
  window_slide(window, policy, now)
  if window.past_failed + window.failed > 0 then
    return false
  end
  breaker.ok = breaker.ok + times
  local timed = times
  if latency < 0 then
    timed, latency = 0, 0
  end
  window_add(window, now, times, 0, 0, timed, latency)
  keep(breaker, policy)
  return true
end

-- False: refused, because it should end in the past.
local function force(breaker, policy, order, reason, until_ms, actor, made)
  begin(breaker, policy, made)
  if until_ms >= 0 and now >= until_ms then
    return false
  end
  if order == 'force_open' or order == 'force_closed' then
    local override = order == 'force_open' and 'open' or 'closed'
    if
      breaker.override ~= override or breaker.override_until_ms ~= until_ms or breaker.override_reason ~= reason
    then
      breaker.override = override
      breaker.override_until_ms = until_ms
      breaker.override_reason = reason
      breaker.held_leases = {}
      change(breaker, policy, breaker.state, reason, '{}', actor, made)
    end
  elseif order == 'unforce' then
    if breaker.override ~= 'none' then
      unforce(breaker, policy, reason, actor, made)
    end
  elseif order == 'probe' then
    if breaker.state == 'open' and breaker.override == 'none' then
      half_open(breaker, policy, reason, actor, made)
    end
  elseif order == 'disable' then
    if breaker.state ~= 'disabled' then
      breaker.reason = reason
      breaker.numbers = '{}'
      shut(breaker, policy, 'disabled', policy.reenable_ms, actor, made)
    end
  elseif order == 'enable' then
    if breaker.state == 'disabled' then
      half_open(breaker, policy, reason, actor, made)
    end
  elseif order == 'reset' then
    local seen = breaker.state ~= 'closed' or breaker.override ~= 'none' or held(breaker)
    breaker.trips = 0
    breaker.failures = ''
    clear_override(breaker)
    clean(breaker)
    if seen then
      change(breaker, policy, 'closed', reason, '{}', actor, made)
    end
  end
  if breaker.known or #made > 0 then
    keep(breaker, policy)
  end
  return true
end

-- The counts as a record would find them; looking changes nothing.
local function counts_now(breaker, policy)
  local own = window_of(breaker)
  local window = window_unpack(window_pack(own), own.width_ms)
  window_slide(window, policy, now)
  return window_counts(window)
end

-- Failures in a row, which a sample knows only if nothing succeeded.
local function streak_of(sample)
  return sample.ok > 0 and 0 or sample.failed
end

local function judge_sample(breaker, policy, tally, draw, made)
  if breaker.state == 'half_open' then
    local sample = tally or { ok = breaker.probe_successes, failed = 0, slow = 0, timed = 0, latency = 0 }
    local calls = sample.ok + sample.failed
    if policy.close_rate >= 0 and sample.ok > 0 and sample.ok / calls >= policy.close_rate then
      local found = { { 'ok', sample.ok }, { 'calls', calls }, { 'limit', policy.close_rate } }
      close(breaker, policy, 'sample_recovered', figures(found), made)
    elseif calls > 0 then
      judge(breaker, policy, sample, streak_of(sample), draw, made)
    end
  elseif breaker.state == 'closed' then
    local streak = tally and math.max(breaker.streak, streak_of(tally)) or breaker.streak
    judge(breaker, policy, tally or counts_now(breaker, policy), streak, draw, made)
  end
end

-- tally: counts, or nil for the breaker's own. generation: the breaker's when they were taken; -1: whatever it is.
local function evaluate(breaker, policy, tally, generation, draw, made)
  begin(breaker, policy, made)
  if breaker.override ~= 'none' then
    return
  end
  if generation < 0 or generation >= breaker.generation then
    judge_sample(breaker, policy, tally, draw, made)
  end
  if breaker.state == 'open' and probe_due(breaker) then
    half_open(breaker, policy, 'probe_due', 'breaker', made)
  elseif breaker.state == 'disabled' and probe_due(breaker) then
    half_open(breaker, policy, 'reenabled', 'breaker', made)
  end
end
