-- Forgets the limits of projects that have nothing running and nothing waiting, a part at a time: they are read anew with
-- the project's next job, so that a changed setting reaches everybody and the hash stays small.
-- KEYS[1] shard; ARGV[1] server, [2] cursor of HSCAN.
-- Result: the next cursor, '0' when all were seen.
-- Atomic because a project must not get its first job while its limits go.
local part = call('HSCAN', base .. 'limits', ARGV[2], 'COUNT', 1000)
for i = 1, #part[2], 2 do
  local project = part[2][i]
  if call('HEXISTS', base .. 'run', project) == 0 and call('EXISTS', base .. 'pend:' .. project) == 0 then
    call('HDEL', base .. 'limits', project)
    call('HDEL', base .. 'aged', project)
  end
end
return part[1]
