-- Sets how many jobs may be handed over at a time, of all projects together, as Postgres has it.
-- KEYS[1] shard; ARGV[1] server, [2] the limit, '' for none.
-- Result: {epoch, now, {id, project, nonce, ...} to add to BullMQ}.
-- Atomic because a raised limit lets waiting jobs go at once.
if ARGV[2] == '' then
  call('HDEL', base .. 'conf', 'limit')
else
  call('HSET', base .. 'conf', 'limit', ARGV[2])
end
local slots = call('HGET', base .. 'conf', 'slots')
if slots then
  set_window(tonumber(slots))
  fill()
end
settle()
return { epoch, now, handed }
