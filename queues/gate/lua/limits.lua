-- Sets the limits of projects as Postgres has them.
-- KEYS[1] shard; ARGV[1] server; then for each project: project, running, waiting.
-- Result: {epoch, now, {id, project, ...} to add to BullMQ}.
-- Atomic because a raised limit lets waiting jobs go at once.
local limits, projects = {}, {}
for i = 2, #ARGV, 3 do
  limits[#limits + 1] = ARGV[i]
  limits[#limits + 1] = ARGV[i + 1] .. ':' .. ARGV[i + 2]
  projects[#projects + 1] = ARGV[i]
end
write('HSET', base .. 'limits', limits)
write('SREM', base .. 'unknown', projects)
learn(projects)
for _, project in ipairs(projects) do
  if known[project].waits > 0 then join_ring(project) end
end
fill()
settle()
return { epoch, now, handed }
