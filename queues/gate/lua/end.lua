-- A run is over: the outcome is stored, its caller gets the reply, listeners get the statuses, the lease is free, BullMQ
-- forgets the job, and the worker gets the next one.
-- KEYS[1] shard; ARGV[1] server, [2] job id, [3] nonce of its lease, [4] key of the outcome, [5] outcome ('': Postgres has
-- it), [6] seconds that it is kept, [7] reply stream ('': nobody waits), [8] reply, [9] length of the stream, [10] seconds
-- that it is kept, [11] channel of its listeners, [12] number of statuses; these; then the keys and arguments of BullMQ's
-- own script that finishes a job, none where that is not known.
-- Result: {epoch, now, {id, project, ...} to add to BullMQ, BullMQ's answer, 1 when the next job holds its lease, 1 when
-- nothing waits after it}.
-- Atomic because a caller that has its reply must find the outcome, and nobody else may get the freed place. Releasing
-- comes first: a Redis that is full refuses a script that begins with anything but a deletion. Everything may be repeated:
-- the lease is freed by its nonce, and BullMQ finds no such job the second time.
release({ ARGV[2] }, { ARGV[3] })
fill()
settle()
if ARGV[5] ~= '' then call('SET', ARGV[4], ARGV[5], 'EX', ARGV[6]) end
if ARGV[7] ~= '' then
  call('XADD', ARGV[7], 'MAXLEN', '~', ARGV[9], '*', 'reply', ARGV[8])
  call('EXPIRE', ARGV[7], ARGV[10])
end
local first = 12 + tonumber(ARGV[12])
for i = 13, first do call('PUBLISH', ARGV[11], ARGV[i]) end
if not bull_finish or #ARGV == first then return { epoch, now, handed, 0, 0, 0 } end
local keys, args = {}, {}
for i = 1, 14 do keys[i] = ARGV[first + i] end
for i = first + 15, #ARGV do args[#args + 1] = ARGV[i] end
local finished = bull_finish(keys, args)
local held, is_empty = next_in(finished, base .. 'lease', keys[1], keys[3], keys[14])
return { epoch, now, handed, finished, held, is_empty }
