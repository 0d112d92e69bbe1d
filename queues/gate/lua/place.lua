-- Where jobs stand and why they wait.
-- KEYS[1] shard; ARGV[1] server; then for each job: id, project.
-- Result: for each job {state, rank (0-based, -1 when it does not wait), reason}.
-- Atomic because place and reason must be of the same moment.
local function place_of(id, project)
  if call('HEXISTS', base .. 'lease', id) == 1 then return { 'handed over', -1, '' } end
  local rank = call('ZRANK', base .. 'pend:' .. project, id)
  if not rank then return { 'absent', -1, '' } end
  local of = project_of(project)
  if is_paused('*') or is_paused(project) then return { 'waiting', rank, 'paused' } end
  local is_awaited = call('ZSCORE', of.pend, id) == tostring(awaited_score)
  if of.limit and (of.run >= of.limit or not is_awaited and room_behind(of) < 1) then
    return { 'waiting', rank, 'project_limit' }
  end
  if is_full(of.organization) then return { 'waiting', rank, 'organization_limit' } end
  if leased >= window then return { 'waiting', rank, 'global_limit' } end
  return { 'waiting', rank, 'queue' }
end

local places = {}
for i = 2, #ARGV, 2 do places[#places + 1] = place_of(ARGV[i], ARGV[i + 1]) end
return places
