-- Opens the shard again after Redis lost its memory: the leases are those of the jobs that run by their rows.
-- KEYS[1] shard; ARGV[1] server, [2] the new epoch; then for each running job: id, project.
-- Result: 1, or 0 when the shard was opened by somebody else meanwhile.
-- Atomic because nothing may be handed over while leases are missing.
if epoch ~= '' and tonumber(epoch) >= tonumber(ARGV[2]) then return 0 end
call('DEL', base .. 'lease', base .. 'run', base .. 'back', base .. 'orgs', base .. 'ring')
call('HSET', base .. 'conf', 'epoch', ARGV[2], 'server', ARGV[1])
for i = 3, #ARGV, 2 do
  local id, project = ARGV[i], project_of(ARGV[i + 1])
  if call('ZREM', project.pend, id) == 1 then count_waiting(project, -1) end
  take_place(project)
  lease(project, id, '0')
end
settle()
for _, project in ipairs(call('ZRANGE', base .. 'backlog', 0, -1)) do join_ring(project) end
settle()
return 1
