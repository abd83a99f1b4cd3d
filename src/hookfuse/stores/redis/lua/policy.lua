-- policy.lua: reads a policy from its text, once per script call however many keys share it.
--
-- The text is numbers with a space between: window_ms bucket_ms cool_off_ms cool_off_factor cool_off_max_ms jitter
-- probes probe_lease_ms close_after close_rate ramp_ms disable_after reenable_ms forget_ms healthy_ms remember_ms
-- quiet_ms slow_ms limit_ms inline enforced judges_latency, then four per rule: its name and three numbers.
-- A missing value is -1.
local POLICY_FIELDS = {
  'window_ms', 'bucket_ms', 'cool_off_ms', 'cool_off_factor', 'cool_off_max_ms', 'jitter', 'probes',
  'probe_lease_ms', 'close_after', 'close_rate', 'ramp_ms', 'disable_after', 'reenable_ms', 'forget_ms',
  'healthy_ms', 'remember_ms', 'quiet_ms', 'slow_ms', 'limit_ms', 'inline', 'enforced', 'judges_latency',
}

local read_policies = {}

local function read_policy(text)
  local known = read_policies[text]
  if known then
    return known
  end
  local words = {}
  for word in string.gmatch(text, '%S+') do
    words[#words + 1] = word
  end
  local policy = { rules = {} }
  for at, name in ipairs(POLICY_FIELDS) do
    policy[name] = tonumber(words[at])
  end
  policy.inline = policy.inline == 1
  policy.enforced = policy.enforced == 1
  policy.judges_latency = policy.judges_latency == 1
  for at = #POLICY_FIELDS + 1, #words, 4 do
    policy.rules[#policy.rules + 1] = {
      name = words[at],
      tonumber(words[at + 1]),
      tonumber(words[at + 2]),
      tonumber(words[at + 3]),
    }
  end
  read_policies[text] = policy
  return policy
end

-- Each returns the figures that reach the rule's limit, or nil below it.
local BREACHED = {
  streak = function(rule, _, streak)
    if streak >= rule[1] then
      return { { 'streak', streak }, { 'limit', rule[1] } }
    end
  end,
  count = function(rule, counts, streak)
    local failed = counts.failed
    if rule[2] == 1 then
      failed = math.min(failed, streak)
    end
    if failed >= rule[1] then
      return { { 'failed', failed }, { 'limit', rule[1] } }
    end
  end,
  rate = function(rule, counts)
    local calls = counts.ok + counts.failed
    if calls >= rule[2] and counts.failed / calls >= rule[1] then
      return { { 'failed', counts.failed }, { 'calls', calls }, { 'limit', rule[1] } }
    end
  end,
  latency = function(rule, counts)
    if counts.timed >= rule[2] and counts.latency / counts.timed >= rule[3] then
      return { { 'mean', counts.latency / counts.timed / 1000 }, { 'calls', counts.timed }, { 'limit', rule[1] } }
    end
  end,
  slow = function(rule, counts)
    if counts.timed >= rule[2] and counts.slow / counts.timed >= rule[1] then
      return { { 'slow', counts.slow }, { 'calls', counts.timed }, { 'over', rule[3] }, { 'limit', rule[1] } }
    end
  end,
}
