-- Frees the leases of jobs that ended or were handed back, and hands over who is next.
-- KEYS[1] shard; ARGV[1] server; then for each job: id, nonce of the lease ('': any).
-- Result: {epoch, now, {id, project, nonce, ...} to add to BullMQ}.
-- Atomic because the freed place must go to the next in turn and to nobody else. Only the lease's holder frees it: a
-- worker that was thought dead must not free the lease that somebody else got since.
local ids, nonces = {}, {}
for i = 2, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
  nonces[#nonces + 1] = ARGV[i + 1]
end
release(ids, nonces)
fill()
settle()
return { epoch, now, handed }
