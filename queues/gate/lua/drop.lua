-- Forgets all waiting jobs of one project, whatever their number: its rows are cancelled in batches meanwhile. Jobs that
-- were handed over keep their leases until their deliveries are turned away.
-- KEYS[1] shard; ARGV[1] server, [2] project.
-- Result: how many waited.
-- Atomic because the counters belong to the list. UNLINK frees 100,000 entries outside of the script.
local project = project_of(ARGV[2])
local dropped = project.waits
call('UNLINK', project.pend)
call('ZREM', base .. 'ring', project.name)
call('SREM', base .. 'unknown', project.name)
if dropped > 0 then count_waiting(project, -dropped) end
settle()
return dropped
