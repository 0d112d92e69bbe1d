-- Takes the next job out of BullMQ's queue, by BullMQ's own script, and checks its lease.
-- KEYS those of that script, ARGV its arguments; the last argument is the beginning of the gate's keys.
-- Result: {BullMQ's answer, 1 when the job holds its lease, 1 when nothing waits after it}.
-- Atomic because the marker may only go while nothing waits.
local taken = bull_take(KEYS, ARGV)
local held, is_empty = next_in(taken, ARGV[#ARGV] .. 'lease', KEYS[1], KEYS[3], KEYS[11])
return { taken, held, is_empty }
