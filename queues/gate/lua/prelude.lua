-- Begins every script of the gate. One shard (a job type, or one shard of it) lies below one hash tag; KEYS[1] is the
-- beginning of all its keys, so that a script touches one node of a cluster only. A script runs alone, therefore what
-- it decides (is there room?) and what it does (take it) cannot be separated by anybody.
--
-- KEYS[1]..'conf'      hash  epoch, server, window, turn, waiting, slots, limit (of all projects together; absent: none)
-- KEYS[1]..'lease'     hash  job id -> project:nonce, for each job that was handed to BullMQ and has not ended; the nonce
--                            is odd when somebody waits for the job's end
-- KEYS[1]..'run'       hash  project -> number of its leases
-- KEYS[1]..'back'      hash  project -> its leases of jobs that nobody waits for, of those that keep places for callers
-- KEYS[1]..'shares'    hash  project -> running:waiting:kept:weight:organization:cap, read from Postgres: how many jobs may
--                            run and wait, how many of the places are kept for jobs that somebody waits for, the places that
--                            it gets in a turn, and its organization with what that may have running; both may be empty
-- KEYS[1]..'pend:'..p  zset  waiting job ids of project p; the score is the negative priority (-10: somebody waits for it),
--                            and UUIDv7 ids lie by age
-- KEYS[1]..'backlog'   zset  project -> how many of its jobs wait
-- KEYS[1]..'ring'      zset  project -> turn: who has jobs waiting and room to run one, by turns; the fraction counts the
--                            places that it has had in this turn
-- KEYS[1]..'orgs'      hash  organization -> number of leases of its projects, where it has a cap
-- KEYS[1]..'held:'..o  zset  project -> turn: whose turn came while its organization o had no room
-- KEYS[1]..'aged'      hash  project -> how often its places had to be shared between old jobs and those of higher priority
-- KEYS[1]..'paused'    set   projects that are not served just now; '*': nobody is
-- KEYS[1]..'unknown'   set   projects whose limits are missing: nothing of theirs is handed over until they are read
-- KEYS[1]..'workers'   hash  worker id -> last beat (ms), slots, and what it says of itself
--
-- KEYS[2] is the beginning of the keys of the shard's BullMQ queue, below the same hash tag. `bull_add` is BullMQ's own
-- script that adds a job, or nil (see bullmq-scripts.ts).
--
-- ARGV[1] is the run id of the Redis server that the caller talks to. A server that was started anew may have forgotten
-- leases: until the shard is restored from Postgres, nothing is handed over.
--
-- A command costs as much as the rest of what is done for a job: what a script learns of a project it remembers, and
-- what it changes it writes in few commands at its end (`settle`), which every script that changes anything calls last.
local call = redis.call
local base = KEYS[1]
local conf = call('HMGET', base .. 'conf', 'epoch', 'server', 'window', 'turn', 'waiting')
local epoch = conf[2] == ARGV[1] and conf[1] or ''
local window = tonumber(conf[3] or '0')
local turn = tonumber(conf[4] or '0')
local waiting_before = tonumber(conf[5] or '0')
local waiting = waiting_before
local leased = call('HLEN', base .. 'lease')
local time = call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format('%.0f', now_ms)
local handed = {}
local bull = KEYS[2]
local bull_options = cmsgpack.pack({ attempts = 1, removeOnComplete = true, removeOnFail = true })

-- Lua passes only some thousand arguments at a time; an even number, so that pairs stay together.
local part = 1000

-- One command for all these arguments, or a few.
local function write(command, key, args, flag)
  for first = 1, #args, part do
    local last = math.min(first + part - 1, #args)
    if flag then
      call(command, key, flag, unpack(args, first, last))
    else
      call(command, key, unpack(args, first, last))
    end
  end
end

-- One answer for each argument.
local function read(command, key, args)
  if #args <= part then return call(command, key, unpack(args)) end
  local answers = {}
  for first = 1, #args, part do
    for _, answer in ipairs(call(command, key, unpack(args, first, math.min(first + part - 1, #args)))) do
      answers[#answers + 1] = answer
    end
  end
  return answers
end

-- Organizations by name, of those that have a cap.
local organizations = {}

local function organization_of(name, cap)
  if name == '' or cap == '' then return nil end
  local organization = organizations[name]
  if not organization then
    organization = { name = name, held = base .. 'held:' .. name }
    organization.run = tonumber(call('HGET', base .. 'orgs', name) or '0')
    organization.run_before = organization.run
    organizations[name] = organization
  end
  organization.cap = tonumber(cap)
  return organization
end

-- Projects by name: `limit`, `cap`, `kept`, `weight` and `organization` (nil: unknown), `run` leases, `back` of them of jobs
-- that nobody waits for (nil: not counted, since it keeps no places), `waits` jobs waiting.
local known = {}
local touched = {}

local function take_share(project, text)
  local limit, cap, kept, weight, organization, most = string.match(text or '', '^(%d+):(%d+):(%d+):(%d+):([^:]*):(%d*)$')
  project.limit, project.cap = tonumber(limit), tonumber(cap)
  project.kept, project.weight = tonumber(kept), tonumber(weight)
  project.organization = limit and organization_of(organization, most) or nil
end

local function learn(names)
  local new = {}
  for _, name in ipairs(names) do
    if not known[name] then
      known[name] = { name = name, pend = base .. 'pend:' .. name }
      new[#new + 1] = name
    end
  end
  if #new == 0 then return end
  local shares = read('HMGET', base .. 'shares', new)
  local running = read('HMGET', base .. 'run', new)
  local keeping = {}
  for i, name in ipairs(new) do
    local project = known[name]
    take_share(project, shares[i])
    project.run = tonumber(running[i] or '0')
    project.waits = call('ZCARD', project.pend)
    project.run_before, project.waits_before = project.run, project.waits
    if project.kept ~= 0 then keeping[#keeping + 1] = name end
    touched[#touched + 1] = project
  end
  if #keeping == 0 then return end
  for i, back in ipairs(read('HMGET', base .. 'back', keeping)) do
    local project = known[keeping[i]]
    project.back = tonumber(back or '0')
    project.back_before = project.back
  end
end

local function project_of(name)
  if not known[name] then learn({ name }) end
  return known[name]
end

local any_paused
local function is_paused(name)
  if any_paused == nil then any_paused = call('EXISTS', base .. 'paused') == 1 end
  return any_paused and call('SISMEMBER', base .. 'paused', name) == 1
end

-- The score of a job that somebody waits for: before every priority.
local awaited_score = -10

local function take_place(project)
  project.run = project.run + 1
  leased = leased + 1
  if project.organization then project.organization.run = project.organization.run + 1 end
end

local function count_back(project, by)
  if project.back then project.back = math.max(0, project.back + by) end
end

-- How many more jobs that nobody waits for may have places of their project.
local function room_behind(project)
  if project.kept == 0 then return project.limit - project.run end
  return math.max(0, project.limit - project.kept - project.back)
end

-- How many jobs that somebody waits for wait in a project's list.
local function awaited_in(project)
  if not project.awaited then project.awaited = call('ZCOUNT', project.pend, awaited_score, awaited_score) end
  return project.awaited
end

-- Whether one more of its waiting jobs may have a place, besides those that it was given in this round.
local function has_job(project)
  if project.waits <= 0 or project.run >= project.limit then return false end
  if project.kept == 0 then return true end
  local given, room = project.places or 0, room_behind(project)
  return given < room or given < room + awaited_in(project)
end

local function is_full(organization) return organization ~= nil and organization.run >= organization.cap end

-- The nonce tells whether somebody waits, so that whoever frees the lease knows that.
local even = now_ms - now_ms % 2
local function nonce_of(is_awaited) return string.format('%.0f', is_awaited and even + 1 or even) end
local function is_awaited_by(nonce) return tonumber(string.sub(nonce, -1)) % 2 == 1 end

local new_leases = {}
local function lease(project, id, nonce)
  new_leases[#new_leases + 1] = id
  new_leases[#new_leases + 1] = project.name .. ':' .. nonce
  if not is_awaited_by(nonce) then count_back(project, 1) end
end

local function add_to_bullmq(project, id, nonce)
  bull_add({
    bull .. 'wait', bull .. 'paused', bull .. 'meta', bull .. 'id', bull .. 'completed', bull .. 'delayed',
    bull .. 'active', bull .. 'events', bull .. 'marker',
  }, {
    cmsgpack.pack({ bull, id .. '.' .. nonce, string.match(bull, '([^:]*):$'), now }),
    '{"projectId":"' .. project.name .. '","epoch":"' .. epoch .. '"}',
    bull_options,
  })
end

local function leave_to_caller(id, project, nonce)
  handed[#handed + 1] = id
  handed[#handed + 1] = project
  handed[#handed + 1] = nonce
end

-- The lease and the BullMQ job. Who is in `handed` the caller has to add to BullMQ.
local function hand_over(project, id, is_awaited)
  local nonce = nonce_of(is_awaited)
  lease(project, id, nonce)
  if bull_add then return add_to_bullmq(project, id, nonce) end
  leave_to_caller(id, project.name, nonce)
end

local function count_waiting(project, by)
  project.waits = project.waits + by
  waiting = waiting + by
end

-- A project keeps its turn: joining twice changes nothing.
local joining = {}
-- Turns and the places that were had in one make up a score.
local most_places = 64
local function join_at(name, score)
  joining[#joining + 1] = score
  joining[#joining + 1] = name
end

local function join_ring(name, used)
  turn = turn + 1
  join_at(name, turn + (used or 0) / most_places)
end

local function write_ring()
  if #joining == 0 then return end
  write('ZADD', base .. 'ring', joining, 'NX')
  joining = {}
end

-- The project of an organization whose turn came first while that had no room; nil: there is none, or still no room.
local function next_held(organization)
  if not organization or is_full(organization) then return nil end
  return call('ZPOPMIN', organization.held)[1]
end

-- Frees leases: ids with their nonces. Nonce '' releases whoever holds it; a restored lease (nonce 0) is released by
-- whoever ran the job. Deleting comes first: a Redis that is full refuses a script that begins with anything else.
local function release(ids, nonces)
  if #ids == 0 then return end
  local held = read('HMGET', base .. 'lease', ids)
  local freed, names, owners, seen = {}, {}, {}, {}
  for i, id in ipairs(ids) do
    local name, owner = string.match(held[i] or '', '^(.*):(%d+)$')
    if name and not seen[id] and (nonces[i] == '' or owner == '0' or nonces[i] == owner) then
      seen[id] = true
      freed[#freed + 1] = id
      names[#names + 1] = name
      owners[#owners + 1] = owner
    end
  end
  write('HDEL', base .. 'lease', freed)
  learn(names)
  for i, name in ipairs(names) do
    local project = known[name]
    leased = leased - 1
    project.run = math.max(0, project.run - 1)
    if not is_awaited_by(owners[i]) then count_back(project, -1) end
    local organization = project.organization
    if organization then organization.run = math.max(0, organization.run - 1) end
    local other = next_held(organization)
    if other then join_ring(other) end
    if project.waits > 0 then join_ring(name) end
  end
end

-- Whether a project whose turn it is gets a place. Where its organization has no room, it waits for that.
local function is_served(project)
  if not project.limit then
    call('SADD', base .. 'unknown', project.name)
    return false
  end
  if not has_job(project) or is_paused(project.name) then return false end
  if not is_full(project.organization) then return true end
  turn = turn + 1
  call('ZADD', project.organization.held, 'NX', turn, project.name)
  return false
end

-- A job of a lower priority that has waited so long shares its project's places with those of higher ones.
local aged_ms = 30000

-- The oldest job of the lowest priority, when it has waited for long. Its age follows from its id.
local function aged_in(pend, score)
  local last = call('ZRANGE', pend, -1, -1, 'WITHSCORES')
  if #last == 0 or tonumber(last[2]) <= score then return nil end
  local oldest = call('ZRANGE', pend, last[2], last[2], 'BYSCORE', 'LIMIT', 0, 1)[1]
  local made = tonumber(string.sub(oldest, 1, 8) .. string.sub(oldest, 10, 13), 16)
  return made and tonumber(now) - made > aged_ms and oldest or nil
end

-- The next jobs of a project: those that somebody waits for, then those of the highest priority, by age. While a job of a
-- lower priority has waited for long, every second place is such a job's, unless the place is kept for a caller. Where all
-- have the lowest priority, 0, nothing more is asked.
local function pop_jobs(project, count)
  local popped = call('ZPOPMIN', project.pend, count)
  project.awaited = nil
  local room = room_behind(project)
  for i = 2, #popped, 2 do
    popped[i] = tonumber(popped[i])
    if popped[i] ~= awaited_score and project.kept > 0 then room = room - 1 end
  end
  for i = 1, #popped, 2 do
    local score = popped[i + 1]
    if score == 0 then break end
    local is_kept = project.kept > 0 and score == awaited_score and room < 1
    local aged = not is_kept and aged_in(project.pend, score)
    if aged and call('HINCRBY', base .. 'aged', project.name, 1) % 2 == 1 then
      call('ZREM', project.pend, aged)
      call('ZADD', project.pend, score, popped[i])
      if score == awaited_score then room = room - 1 end
      popped[i], popped[i + 1] = aged, 0
    end
  end
  return popped
end

-- The first jobs of those who got places, in the order in which they got them.
local function hand_over_first(served)
  local first = {}
  for _, project in ipairs(served) do
    if project.places > 0 then
      first[project] = { taken = 0, ids = pop_jobs(project, project.places) }
      project.places = 0
    end
    local queue = first[project]
    hand_over(project, queue.ids[2 * queue.taken + 1], queue.ids[2 * queue.taken + 2] == awaited_score)
    queue.taken = queue.taken + 1
  end
end

local function give_place(project)
  take_place(project)
  count_waiting(project, -1)
  project.places = (project.places or 0) + 1
  project.used = project.used + 1
end

-- The first of the ring, and how many places each had in this turn.
local function pop_ring(room)
  local popped = call('ZPOPMIN', base .. 'ring', room)
  local queue, turns = {}, {}
  for i = 1, #popped, 2 do
    queue[#queue + 1] = popped[i]
    turns[popped[i]] = tonumber(popped[i + 1])
  end
  learn(queue)
  for name, at in pairs(turns) do known[name].used = (at % 1) * most_places end
  return queue, turns
end

-- A project without a use for its turn leaves the room of its organization to one that waited for it.
local function pass_on(project, queue)
  local other = next_held(project.organization)
  if not other then return end
  learn({ other })
  known[other].used = 0
  queue[#queue + 1] = other
end

-- One round over the first of the ring. Answers whether there is anybody left to ask.
local function serve_ring()
  local room = math.min(window - leased, part)
  local queue, turns = pop_ring(room)
  -- With the whole ring in hand the rounds can go on; else whoever had a turn goes behind those that were not asked yet.
  local whole = #queue < room
  local served, back = {}, {}
  local at = 1
  while at <= #queue and leased < window do
    local project = known[queue[at]]
    local is_over = true
    if is_served(project) then
      give_place(project)
      served[#served + 1] = project
      if project.waits > 0 and project.run < project.limit then
        is_over = project.used >= project.weight
        if is_over then
          local line = whole and queue or back
          line[#line + 1] = project.name
        end
      end
    else
      pass_on(project, queue)
    end
    if is_over then
      project.used = 0
      at = at + 1
    end
  end
  for i = at, #queue do
    local name = queue[i]
    if whole or not turns[name] then
      join_ring(name, known[name].used)
    else
      join_at(name, math.floor(turns[name]) + known[name].used / most_places)
    end
  end
  for _, name in ipairs(back) do join_ring(name) end
  hand_over_first(served)
  write_ring()
  return not whole
end

-- Round robin while the window has room.
local function fill()
  if epoch == '' or leased >= window or is_paused('*') then return end
  write_ring()
  while leased < window and serve_ring() do end
end

-- The window follows from the slots of the live workers, and from the limit of the job type.
local function set_window(slots)
  window = math.ceil(slots * 1.2)
  local limit = call('HGET', base .. 'conf', 'limit')
  if limit then window = math.min(window, tonumber(limit)) end
  call('HSET', base .. 'conf', 'window', window, 'slots', slots)
end

-- What changed of these numbers, in one command for those that are left and one for those that are gone.
local function write_changed(key, all, field)
  local left, gone = {}, {}
  for _, each in pairs(all) do
    local value, before = each[field], each[field .. '_before']
    if value ~= nil and value ~= before then
      local list = value > 0 and left or gone
      list[#list + 1] = each.name
      if value > 0 then list[#list + 1] = value end
      each[field .. '_before'] = value
    end
  end
  write('HSET', key, left)
  write('HDEL', key, gone)
end

local function settle()
  write('HSET', base .. 'lease', new_leases)
  new_leases = {}
  write_ring()
  local backlog, empty = {}, {}
  for _, project in ipairs(touched) do
    if project.waits ~= project.waits_before then
      local list = project.waits > 0 and backlog or empty
      if project.waits > 0 then list[#list + 1] = project.waits end
      list[#list + 1] = project.name
    end
    project.waits_before = project.waits
  end
  write_changed(base .. 'run', touched, 'run')
  write_changed(base .. 'back', touched, 'back')
  write_changed(base .. 'orgs', organizations, 'run')
  write('ZADD', base .. 'backlog', backlog)
  write('ZREM', base .. 'backlog', empty)
  if waiting ~= waiting_before or turn ~= tonumber(conf[4] or '0') then
    call('HSET', base .. 'conf', 'turn', turn, 'waiting', waiting)
  end
end
