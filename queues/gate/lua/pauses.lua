-- Sets who is paused as Postgres has it.
-- KEYS[1] shard; ARGV[1] server; then the paused projects, '*' for everybody.
-- Result: {epoch, now, {id, project, nonce, ...} to add to BullMQ}.
-- Atomic because who is not paused any more must be back on the ring before anybody else takes the room.
local before = call('SMEMBERS', base .. 'paused')
call('DEL', base .. 'paused')
local paused = {}
for i = 2, #ARGV do paused[#paused + 1] = ARGV[i] end
write('SADD', base .. 'paused', paused)
for _, project in ipairs(before) do
  if not is_paused(project) and call('EXISTS', base .. 'pend:' .. project) == 1 then join_ring(project) end
end
fill()
settle()
return { epoch, now, handed }
