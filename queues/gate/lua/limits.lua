-- Sets the shares of projects as Postgres has them.
-- KEYS[1] shard; ARGV[1] server; then for each project: project, its share (see `shares` in the prelude).
-- Result: {epoch, now, {id, project, nonce, ...} to add to BullMQ}.
-- Atomic because a raised limit lets waiting jobs go at once, and because the leases of a project count for the organization
-- that its share names.
local shares, projects = {}, {}
for i = 2, #ARGV, 2 do
  shares[#shares + 1] = ARGV[i]
  shares[#shares + 1] = ARGV[i + 1]
  projects[#projects + 1] = ARGV[i]
end
learn(projects)
for i, name in ipairs(projects) do
  local project = known[name]
  local before = project.organization
  take_share(project, shares[2 * i])
  if before ~= project.organization then
    if before then before.run = math.max(0, before.run - project.run) end
    if project.organization then project.organization.run = project.organization.run + project.run end
  end
  -- What ran before it kept places may be anything; it counts as work that nobody waits for until it is counted anew.
  if project.kept ~= 0 and not project.back then project.back = project.run end
end
write('HSET', base .. 'shares', shares)
write('SREM', base .. 'unknown', projects)
for _, organization in pairs(organizations) do
  for _ = 1, organization.cap - organization.run do
    local name = next_held(organization)
    if not name then break end
    join_ring(name)
  end
end
for _, project in ipairs(projects) do
  if known[project].waits > 0 then join_ring(project) end
end
fill()
settle()
return { epoch, now, handed }
