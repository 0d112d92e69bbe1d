-- Takes accepted jobs: hands each over when its project and the window have room and nobody of its project waits
-- before it, else lets it wait. One that somebody waits for goes before those that nobody waits for. A job that is known already stays where it is.
-- KEYS[1] shard; ARGV[1] server; then for each job: id, project, '1' when it may be refused, and ':9' when its
-- priority is 9, ':10' when somebody waits for its end.
-- Result: {epoch, now, {id, project, nonce, ...} to add to BullMQ, {0 known | 1 handed over | 2 waits | 3 full | 4 limits missing}}.
-- Atomic because room is looked for and taken, and because an id must not be taken twice.
local ids, names = {}, {}
for i = 2, #ARGV, 3 do
  ids[#ids + 1] = ARGV[i]
  names[#names + 1] = ARGV[i + 1]
end
local leases = read('HMGET', base .. 'lease', ids)
learn(names)
local is_known, asked = {}, {}
for i, id in ipairs(ids) do
  local project = known[names[i]]
  if leases[i] then
    is_known[id] = true
  elseif project.waits > 0 then
    if not project.asked then
      project.asked = {}
      asked[#asked + 1] = project
    end
    project.asked[#project.asked + 1] = id
  end
end
for _, project in ipairs(asked) do
  local scores = read('ZMSCORE', project.pend, project.asked)
  for i, id in ipairs(project.asked) do
    if scores[i] then is_known[id] = true end
  end
end
local closed = epoch == '' or is_paused('*')
local answers, joined = {}, {}
for i, id in ipairs(ids) do
  local project = known[names[i]]
  local answer = 0
  local rank = tonumber(string.match(ARGV[3 * i + 1], ':(%d+)$') or '0')
  local is_awaited = -rank == awaited_score
  if is_known[id] then
    answer = 0
  elseif not project.limit then
    answer = 4
  elseif
    not closed
    and leased < window
    and project.run < project.limit
    and (is_awaited or room_behind(project) > 0)
    and (project.waits == 0 or (is_awaited and awaited_in(project) == 0))
    and not is_full(project.organization)
    and not is_paused(project.name)
  then
    take_place(project)
    hand_over(project, id, is_awaited)
    is_known[id] = true
    answer = 1
  elseif string.sub(ARGV[3 * i + 1], 1, 1) == '1' and project.waits >= project.cap then
    answer = 3
  else
    if not project.added then
      project.added = {}
      joined[#joined + 1] = project
    end
    project.added[#project.added + 1] = -rank
    project.added[#project.added + 1] = id
    if is_awaited then project.awaited = awaited_in(project) + 1 end
    count_waiting(project, 1)
    is_known[id] = true
    answer = 2
  end
  answers[i] = answer
end
for _, project in ipairs(joined) do
  write('ZADD', project.pend, project.added)
  if has_job(project) then join_ring(project.name) end
end
settle()
return { epoch, now, handed, answers }
