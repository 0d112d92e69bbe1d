-- Forgets jobs that are not to run any more, waiting or handed over.
-- KEYS[1] lane; ARGV[1] server; then for each job: id, project.
-- Result: {epoch, now, {id, project, ...} to add to BullMQ}.
-- Atomic because a job that moves from waiting to handed over in between would be missed.
local ids, nonces = {}, {}
for i = 2, #ARGV, 2 do
  local id, project = ARGV[i], project_of(ARGV[i + 1])
  if call('ZREM', project.pend, id) == 1 then count_waiting(project, -1) end
  ids[#ids + 1] = id
  nonces[#nonces + 1] = ''
end
release(ids, nonces)
fill()
settle()
return { epoch, now, handed }
