-- bell_cluster.lua: the bell of a shard of a cluster, where nobody can wait for streams of several slots.
-- Nobody hears it before this script has ended; so it may ring first, where a refusal leaves nothing half done.
local function ring(base)
  redis.call('SPUBLISH', base .. 'bell', '')
end
