import test from 'ava';
import { ensureLane, leadLane, leaveLane } from '#domain/jobs/lanes.ts';
import { newId } from '#lib/ids.ts';
import { openEngine } from '#test/support/engine.ts';

test('one worker at a time leads a lane, and the next when it leaves or falls silent', async (t) => {
  const { db } = await openEngine(t);
  const [lane, first, second] = ['a.lane', newId(), newId()];
  await ensureLane(db, lane);
  await ensureLane(db, lane);
  const asked = await Promise.all([leadLane(db, lane, first), leadLane(db, lane, second)]);
  t.is(asked.filter((epoch) => epoch === 0).length, 1);
  const [leader, other] = asked[0] === 0 ? [first, second] : [second, first];
  t.is(await leadLane(db, lane, leader), 0);
  t.is(await leadLane(db, lane, other), null);
  await leaveLane(db, lane, other);
  t.is(await leadLane(db, lane, other), null);
  await leaveLane(db, lane, leader);
  t.is(await leadLane(db, lane, other), 0);
  await db.query(`update job_lanes set leader_until = now() - interval '1 second'`);
  t.is(await leadLane(db, lane, leader), 0);
});
