-- Hands leased jobs over once more, each under a new lease in the place of its old one.
-- KEYS[1] shard; ARGV[1] server; then for each job: id.
-- Result: {epoch, now, {id, project, ...} handed over}.
-- Atomic because the place must not be free in between: it would go to somebody else.
for i = 2, #ARGV do
  local id = ARGV[i]
  local held = epoch ~= '' and call('HGET', base .. 'lease', id)
  if held then
    local project = string.match(held, '^(.*):%d+$')
    call('HSET', base .. 'lease', id, project .. ':' .. now)
    handed[#handed + 1] = id
    handed[#handed + 1] = project
  end
end
return { epoch, now, handed }
