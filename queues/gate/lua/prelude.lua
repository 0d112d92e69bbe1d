-- Begins every script of the gate. One shard (a job type, or one shard of it) lies below one hash tag; KEYS[1] is the
-- beginning of all its keys, so that a script touches one node of a cluster only. A script runs alone, therefore what
-- it decides (is there room?) and what it does (take it) cannot be separated by anybody.
--
-- KEYS[1]..'conf'      hash  epoch, server, window, turn, waiting, slots, limit (of all projects together; absent: none)
-- KEYS[1]..'lease'     hash  job id -> project:nonce, for each job that was handed to BullMQ and has not ended
-- KEYS[1]..'run'       hash  project -> number of its leases
-- KEYS[1]..'limits'    hash  project -> running:waiting, read from Postgres
-- KEYS[1]..'pend:'..p  zset  waiting job ids of project p; the score is the negative priority, and UUIDv7 ids lie by age
-- KEYS[1]..'backlog'   zset  project -> how many of its jobs wait
-- KEYS[1]..'ring'      zset  project -> turn: who has jobs waiting and room to run one, by turns
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
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
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

-- Projects by name: `limit` and `cap` (nil: unknown), `run` leases, `waits` jobs waiting.
local known = {}
local touched = {}

local function learn(names)
  local new = {}
  for _, name in ipairs(names) do
    if not known[name] then
      known[name] = { name = name, pend = base .. 'pend:' .. name }
      new[#new + 1] = name
    end
  end
  if #new == 0 then return end
  local limits = read('HMGET', base .. 'limits', new)
  local running = read('HMGET', base .. 'run', new)
  for i, name in ipairs(new) do
    local project = known[name]
    local limit, cap = string.match(limits[i] or '', '^(%d+):(%d+)$')
    project.limit, project.cap = tonumber(limit), tonumber(cap)
    project.run = tonumber(running[i] or '0')
    project.waits = call('ZCARD', project.pend)
    project.run_before, project.waits_before = project.run, project.waits
    touched[#touched + 1] = project
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

local function take_place(project)
  project.run = project.run + 1
  leased = leased + 1
end

local new_leases = {}
local function lease(project, id, nonce)
  new_leases[#new_leases + 1] = id
  new_leases[#new_leases + 1] = project.name .. ':' .. nonce
end

local function add_to_bullmq(project, id)
  bull_add({
    bull .. 'wait', bull .. 'paused', bull .. 'meta', bull .. 'id', bull .. 'completed', bull .. 'delayed',
    bull .. 'active', bull .. 'events', bull .. 'marker',
  }, {
    cmsgpack.pack({ bull, id .. '.' .. now, string.match(bull, '([^:]*):$'), now }),
    '{"projectId":"' .. project.name .. '","epoch":"' .. epoch .. '"}',
    bull_options,
  })
end

-- The lease and the BullMQ job. Who is in `handed` the caller has to add to BullMQ.
local function hand_over(project, id)
  lease(project, id, now)
  if bull_add then return add_to_bullmq(project, id) end
  handed[#handed + 1] = id
  handed[#handed + 1] = project.name
end

local function count_waiting(project, by)
  project.waits = project.waits + by
  waiting = waiting + by
end

-- A project keeps its turn: joining twice changes nothing.
local joining = {}
local function join_ring(name)
  turn = turn + 1
  joining[#joining + 1] = turn
  joining[#joining + 1] = name
end

local function write_ring()
  if #joining == 0 then return end
  write('ZADD', base .. 'ring', joining, 'NX')
  joining = {}
end

-- Frees leases: ids with their nonces. Nonce '' releases whoever holds it; a restored lease (nonce 0) is released by
-- whoever ran the job. Deleting comes first: a Redis that is full refuses a script that begins with anything else.
local function release(ids, nonces)
  if #ids == 0 then return end
  local held = read('HMGET', base .. 'lease', ids)
  local freed, names, seen = {}, {}, {}
  for i, id in ipairs(ids) do
    local name, owner = string.match(held[i] or '', '^(.*):(%d+)$')
    if name and not seen[id] and (nonces[i] == '' or owner == '0' or nonces[i] == owner) then
      seen[id] = true
      freed[#freed + 1] = id
      names[#names + 1] = name
    end
  end
  write('HDEL', base .. 'lease', freed)
  learn(names)
  for _, name in ipairs(names) do
    local project = known[name]
    leased = leased - 1
    project.run = math.max(0, project.run - 1)
    if project.waits > 0 then join_ring(name) end
  end
end

-- Whether a project whose turn it is gets a place.
local function is_served(project)
  if not project.limit then
    call('SADD', base .. 'unknown', project.name)
    return false
  end
  return project.waits > 0 and project.run < project.limit and not is_paused(project.name)
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

-- The next jobs of a project: those of the highest priority, by age. While a job of a lower priority has waited for long,
-- every second place is such a job's. Where all have the lowest priority, 0, nothing more is asked.
local function pop_jobs(project, count)
  local popped = call('ZPOPMIN', project.pend, count)
  for i = 1, #popped, 2 do
    local score = tonumber(popped[i + 1])
    if score == 0 then break end
    local aged = aged_in(project.pend, score)
    if aged and call('HINCRBY', base .. 'aged', project.name, 1) % 2 == 1 then
      call('ZREM', project.pend, aged)
      call('ZADD', project.pend, popped[i + 1], popped[i])
      popped[i], popped[i + 1] = aged, '0'
    end
  end
  return popped
end

-- The first jobs of those who got places, in the order in which they got them.
local function hand_over_first(served)
  local first = {}
  for _, project in ipairs(served) do project.places = (project.places or 0) + 1 end
  for _, project in ipairs(served) do
    if project.places > 0 then
      first[project] = { taken = 0, ids = pop_jobs(project, project.places) }
      project.places = 0
    end
    local queue = first[project]
    hand_over(project, queue.ids[2 * queue.taken + 1])
    queue.taken = queue.taken + 1
  end
end

-- One round over the first of the ring. Answers whether there is anybody left to ask.
local function serve_ring()
  local room = math.min(window - leased, part)
  local popped = call('ZPOPMIN', base .. 'ring', room)
  local queue = {}
  for i = 1, #popped, 2 do queue[#queue + 1] = popped[i] end
  learn(queue)
  -- With the whole ring in hand the rounds can go on; else whoever had a turn goes behind those that were not asked yet.
  local whole = #queue < room
  local served, back = {}, {}
  local at = 1
  while at <= #queue and leased < window do
    local project = known[queue[at]]
    if is_served(project) then
      take_place(project)
      count_waiting(project, -1)
      served[#served + 1] = project
      if project.waits > 0 and project.run < project.limit then
        local line = whole and queue or back
        line[#line + 1] = project.name
      end
    end
    at = at + 1
  end
  for i = at, #queue do join_ring(queue[i]) end
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

local function settle()
  write('HSET', base .. 'lease', new_leases)
  new_leases = {}
  write_ring()
  local run, idle, backlog, empty = {}, {}, {}, {}
  for _, project in ipairs(touched) do
    if project.run ~= project.run_before then
      local list = project.run > 0 and run or idle
      list[#list + 1] = project.name
      if project.run > 0 then list[#list + 1] = project.run end
    end
    if project.waits ~= project.waits_before then
      local list = project.waits > 0 and backlog or empty
      if project.waits > 0 then list[#list + 1] = project.waits end
      list[#list + 1] = project.name
    end
    project.run_before, project.waits_before = project.run, project.waits
  end
  write('HSET', base .. 'run', run)
  write('HDEL', base .. 'run', idle)
  write('ZADD', base .. 'backlog', backlog)
  write('ZREM', base .. 'backlog', empty)
  if waiting ~= waiting_before or turn ~= tonumber(conf[4] or '0') then
    call('HSET', base .. 'conf', 'turn', turn, 'waiting', waiting)
  end
end
