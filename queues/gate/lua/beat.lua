-- A worker says that it lives and how many jobs it can run; the window follows from all that live.
-- KEYS[1] shard; ARGV[1] server, [2] worker id, [3] its slots (-1: it leaves), [4] what it says of itself,
-- [5] ms after which a silent worker counts no more.
-- Result: {epoch, now, {id, project, nonce, ...} to add to BullMQ, {worker id, last beat, ...}, {projects without limits}, slots}.
-- Atomic because the window must be the sum of the same workers that are counted.
local workers = base .. 'workers'
if ARGV[3] == '-1' then
  call('HDEL', workers, ARGV[2])
else
  call('HSET', workers, ARGV[2], now .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
end
local slots = 0
local alive = {}
local all = call('HGETALL', workers)
for i = 1, #all, 2 do
  local beat, own = string.match(all[i + 1], '^(%d+) (%d+) ')
  if not beat or tonumber(now) - tonumber(beat) > tonumber(ARGV[5]) then
    call('HDEL', workers, all[i])
  else
    slots = slots + tonumber(own)
    alive[#alive + 1] = all[i]
    alive[#alive + 1] = beat
  end
end
-- Each lease counts for its project. When the counts do not add up, Redis has lost one of the two hashes, and limits
-- would be exceeded: the shard is closed until it is restored from Postgres.
local counted = 0
for _, count in ipairs(call('HVALS', base .. 'run')) do counted = counted + tonumber(count) end
if epoch ~= '' and counted ~= leased then
  call('HDEL', base .. 'conf', 'epoch')
  epoch = ''
end
set_window(slots)
fill()
settle()
local unknown = call('SRANDMEMBER', base .. 'unknown', 100)
return { epoch, now, handed, alive, unknown, slots }
