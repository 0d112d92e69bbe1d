import test from 'ava';
import { type Candidate, ensureLanes, leadLanes, leaveLanes } from '#domain/jobs/lanes.ts';
import { newId } from '#lib/ids.ts';
import { openEngine } from '#test/support/engine.ts';

const nothing = { epoch: 0, due: false, running: false, waiting: false };

const candidate = (name: string, type: string, compares = true): Candidate => ({ name, type, compares });

test('one worker at a time leads a lane, and the next when it leaves or falls silent', async (t) => {
  const { db } = await openEngine(t);
  const [first, second] = [newId(), newId()];
  await ensureLanes(db, ['a.lane']);
  await ensureLanes(db, ['a.lane']);
  const held = async (worker: string) => (await leadLanes(db, [candidate('a.lane', 'a')], worker)).get('a.lane');
  const asked = await Promise.all([held(first), held(second)]);
  t.is(asked.filter((own) => own?.epoch === 0).length, 1);
  const [leader, other] = asked[0] === undefined ? [second, first] : [first, second];
  t.deepEqual(await held(leader), nothing);
  t.is(await held(other), undefined);
  await leaveLanes(db, ['a.lane'], other);
  t.is(await held(other), undefined);
  await leaveLanes(db, ['a.lane'], leader);
  t.deepEqual(await held(other), nothing);
  await db.query(`update job_lanes set leader_until = now() - interval '1 second'`);
  t.deepEqual(await held(leader), nothing);
});

test('a worker leads those of its lanes that nobody else leads', async (t) => {
  const { db } = await openEngine(t);
  const [mine, theirs] = [newId(), newId()];
  const lanes = ['a', 'b', 'c'].map((name) => candidate(name, name));
  await ensureLanes(db, ['a', 'b', 'c', 'd']);
  t.deepEqual([...(await leadLanes(db, [candidate('b', 'b')], theirs)).keys()], ['b']);
  t.deepEqual([...(await leadLanes(db, lanes, mine)).keys()].toSorted(), ['a', 'c']);
  t.deepEqual([...(await leadLanes(db, lanes, theirs)).keys()], ['b']);
  await leaveLanes(db, ['a', 'b'], mine);
  t.deepEqual([...(await leadLanes(db, lanes, theirs)).keys()].toSorted(), ['a', 'b']);
  t.deepEqual([...(await leadLanes(db, [candidate('unheard of', 'a')], mine)).keys()], []);
});

test('many workers that ask for many lanes at once never wait for each other in a circle', async (t) => {
  const { db } = await openEngine(t);
  const names = Array.from({ length: 8 }, (_, nth) => `lane ${nth}`);
  const workers = Array.from({ length: 8 }, () => newId());
  await Promise.all(workers.map((_, nth) => ensureLanes(db, nth % 2 === 0 ? names : names.toReversed())));
  for (let round = 0; round < 10; round += 1) {
    const asked = workers.map(async (worker, nth) => {
      const own = (nth % 2 === 0 ? names : names.toReversed()).map((name) => candidate(name, name));
      return [...(await leadLanes(db, own, worker)).keys()];
    });
    const held = (await Promise.all(asked)).flat();
    t.is(new Set(held).size, held.length, 'no lane has two leaders');
    await db.query('update job_lanes set leader_until = now()');
  }
});

test('a leader is told whether jobs of its types run, wait or are due for another try', async (t) => {
  const { db } = await openEngine(t);
  const worker = newId();
  const lanes = [candidate('b.1of2', 'b'), candidate('c', 'c', false)];
  await ensureLanes(db, ['b.1of2', 'c']);
  const add = (type: string, status: string, dueIn: string | null) =>
    db.query(
      `insert into jobs (id, project_id, type, status, data, request_id, next_run_at)
       values ($1, $2, $3, $4, 'null', 'r', now() + $5::interval)`,
      [newId(), newId(), type, status, dueIn],
    );
  const held = async () => {
    const leads = await leadLanes(db, lanes, worker);
    return [leads.get('b.1of2'), leads.get('c')];
  };
  await add('another', 'running', null);
  await add('another', 'queued', '-1 second');
  await add('b', 'succeeded', null);
  t.deepEqual(await held(), [nothing, nothing]);
  await add('c', 'queued', null);
  t.deepEqual(await held(), [nothing, nothing], 'who does not compare is not told what waits');
  await add('b', 'queued', '1 hour');
  t.deepEqual(await held(), [{ ...nothing, waiting: true }, nothing]);
  await add('c', 'queued', '-1 second');
  t.deepEqual(await held(), [
    { ...nothing, waiting: true },
    { ...nothing, due: true },
  ]);
  await add('b', 'running', null);
  t.deepEqual(await held(), [
    { ...nothing, waiting: true, running: true },
    { ...nothing, due: true },
  ]);
});
