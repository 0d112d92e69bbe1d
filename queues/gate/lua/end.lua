-- Runs are over: outcomes are stored, their callers get the replies, listeners get the statuses, the leases are free,
-- BullMQ forgets the jobs, and the worker gets a next job for each.
-- KEYS[1] shard; ARGV[1] server, [2] number of ends; then for each end: job id, nonce of its lease, key of the outcome,
-- outcome ('': Postgres has it), seconds that it is kept, reply stream ('': nobody waits), reply, length of the stream,
-- seconds that it is kept, channel of its listeners, number of statuses, these, number of keys and arguments of BullMQ's own
-- script that finishes a job (0 where that is not known), these.
-- Result: {epoch, now, {id, project, nonce, ...} to add to BullMQ, for each end {BullMQ's answer, 1 when the next job holds its
-- lease, 1 when nothing waits after it}}.
-- Atomic because a caller that has its reply must find the outcome, and nobody else may get the freed place. Releasing
-- comes first: a Redis that is full refuses a script that begins with anything but a deletion. Everything may be repeated:
-- a lease is freed by its nonce, and BullMQ finds no such job the second time.
-- Many at once, since what a script learns first costs as much as one end: 50 slots took 115 µs of Redis a job one by one.
local ends, ids, nonces = {}, {}, {}
local at = 3
for i = 1, tonumber(ARGV[2]) do
  local statuses = tonumber(ARGV[at + 10])
  local finish = at + 11 + statuses
  ids[i], nonces[i] = ARGV[at], ARGV[at + 1]
  ends[i] = { at = at, statuses = statuses, finish = finish, length = tonumber(ARGV[finish]) }
  at = finish + 1 + ends[i].length
end

local function publish(ended)
  local first = ended.at
  if ARGV[first + 3] ~= '' then call('SET', ARGV[first + 2], ARGV[first + 3], 'EX', ARGV[first + 4]) end
  if ARGV[first + 5] ~= '' then
    call('XADD', ARGV[first + 5], 'MAXLEN', '~', ARGV[first + 7], '*', 'reply', ARGV[first + 6])
    call('EXPIRE', ARGV[first + 5], ARGV[first + 8])
  end
  for i = 1, ended.statuses do call('PUBLISH', ARGV[first + 9], ARGV[first + 10 + i]) end
end

local function finish(ended)
  if not bull_finish or ended.length == 0 then return { 0, 0, 0 } end
  local keys, args = {}, {}
  for i = 1, 14 do keys[i] = ARGV[ended.finish + i] end
  for i = 15, ended.length do args[#args + 1] = ARGV[ended.finish + i] end
  local finished = bull_finish(keys, args)
  return { finished, next_in(finished, base .. 'lease', keys[1], keys[3], keys[14]) }
end

release(ids, nonces)
fill()
settle()
for _, ended in ipairs(ends) do publish(ended) end
local taken = {}
for i, ended in ipairs(ends) do taken[i] = finish(ended) end
return { epoch, now, handed, taken }
