-- Forgets jobs that wait and are not to run any more. One that was handed over keeps its place until its delivery is turned
-- away: whoever is next must not run beside it, should it begin after all.
-- KEYS[1] shard; ARGV[1] server; then for each job: id, project.
-- Result: {epoch, now, {id, project, nonce, ...} to add to BullMQ}.
-- Atomic because counters and ring belong to what waits.
for i = 2, #ARGV, 2 do
  local id, project = ARGV[i], project_of(ARGV[i + 1])
  if call('ZREM', project.pend, id) == 1 then count_waiting(project, -1) end
end
fill()
settle()
return { epoch, now, handed }
