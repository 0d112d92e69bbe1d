-- Forgets the shares of projects that have nothing running and nothing waiting, a part at a time: they are read anew with
-- the project's next job, so that a changed setting reaches everybody and the hash stays small. With each new pass the
-- leases are counted anew: processes of the release before do not count them by caller and by organization.
-- KEYS[1] shard; ARGV[1] server, [2] cursor of HSCAN.
-- Result: the next cursor, '0' when all were seen.
-- Atomic because a project must not get its first job while its share goes, and because nobody may take or free a lease
-- while they are counted.
local function pairs_of(key)
  local all, found = call('HGETALL', key), {}
  for i = 1, #all, 2 do found[#found + 1] = { all[i], all[i + 1] } end
  return found
end

local function count_again()
  local names, counts = {}, {}
  for _, held in ipairs(pairs_of(base .. 'lease')) do
    local name, nonce = string.match(held[2], '^(.*):(%d+)$')
    if not counts[name] then
      counts[name] = 0
      names[#names + 1] = name
    end
    if not is_awaited_by(nonce) then counts[name] = counts[name] + 1 end
  end
  call('DEL', base .. 'back', base .. 'orgs')
  learn(names)
  for _, name in ipairs(names) do
    local project = known[name]
    if project.back then project.back, project.back_before = counts[name], 0 end
    if project.organization then project.organization.run = project.organization.run + project.run end
  end
  settle()
end

if ARGV[2] == '0' then count_again() end
local part_of = call('HSCAN', base .. 'shares', ARGV[2], 'COUNT', 1000)
for i = 1, #part_of[2], 2 do
  local project = part_of[2][i]
  if call('HEXISTS', base .. 'run', project) == 0 and call('EXISTS', base .. 'pend:' .. project) == 0 then
    call('HDEL', base .. 'shares', project)
    call('HDEL', base .. 'aged', project)
  end
end
return part_of[1]
