-- Hands leased jobs over once more, each under a new lease in the place of its old one.
-- KEYS[1] shard; ARGV[1] server; then for each job: id.
-- Result: {epoch, now, {id, project, nonce, ...} handed over}.
-- Atomic because the place must not be free in between: it would go to somebody else.
for i = 2, #ARGV do
  local id = ARGV[i]
  local held = epoch ~= '' and call('HGET', base .. 'lease', id)
  if held then
    local project, before = string.match(held, '^(.*):(%d+)$')
    local nonce = nonce_of(is_awaited_by(before))
    call('HSET', base .. 'lease', id, project .. ':' .. nonce)
    leave_to_caller(id, project, nonce)
  end
end
return { epoch, now, handed }
