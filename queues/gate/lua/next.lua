-- Begins the scripts that take a job out of BullMQ's queue: whether it still holds its lease, and whether another waits.
-- BullMQ sets the marker that wakes a blocked worker each time that a job is taken, in case there are more; without any
-- the marker is removed in the same step, so that no worker wakes for nothing.
-- @param taken BullMQ's answer: {data, id, ...}, or a number
local function next_in(taken, lease, wait, prioritized, marker)
  local is_empty = redis.call('LLEN', wait) == 0 and redis.call('ZCARD', prioritized) == 0
  if is_empty then redis.call('ZREM', marker, '0') end
  if type(taken) ~= 'table' or type(taken[2]) ~= 'string' then return 0, is_empty and 1 or 0 end
  local id, nonce = string.match(taken[2], '^(.*)%.(%d+)$')
  local owner = id and redis.call('HGET', lease, id)
  local is_held = owner and string.match(owner, ':(%d+)$') == nonce
  return is_held and 1 or 0, is_empty and 1 or 0
end
