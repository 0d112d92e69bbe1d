import test from 'ava';
import { type Candidate, claimLeadership, ensureShards, releaseLeadership } from '#domain/jobs/queue-shards.ts';
import { newId } from '#lib/ids.ts';
import { openEngine } from '#test/support/engine.ts';

const nothing = { epoch: 0, due: false, running: false, waiting: false, keyed: false, flowing: false };

const candidate = (name: string, type: string, compares = true): Candidate => ({ name, type, compares });

test('one worker at a time leads a shard, and the next one when it leaves or falls silent', async (t) => {
  const { db } = await openEngine(t);
  const [first, second] = [newId(), newId()];
  await ensureShards(db, ['a.shard']);
  await ensureShards(db, ['a.shard']);
  const leadership = async (worker: string) =>
    (await claimLeadership(db, [candidate('a.shard', 'a')], worker)).get('a.shard');
  const requested = await Promise.all([leadership(first), leadership(second)]);
  t.is(requested.filter((own) => own?.epoch === 0).length, 1);
  const [leader, other] = requested[0] === undefined ? [second, first] : [first, second];
  t.deepEqual(await leadership(leader), nothing);
  t.is(await leadership(other), undefined);
  await releaseLeadership(db, ['a.shard'], other);
  t.is(await leadership(other), undefined);
  await releaseLeadership(db, ['a.shard'], leader);
  t.deepEqual(await leadership(other), nothing);
  await db.query(`update queue_shards set leader_until = now() - interval '1 second'`);
  t.deepEqual(await leadership(leader), nothing);
});

test('a worker leads those of its shards that nobody else leads', async (t) => {
  const { db } = await openEngine(t);
  const [mine, theirs] = [newId(), newId()];
  const shards = ['a', 'b', 'c'].map((name) => candidate(name, name));
  await ensureShards(db, ['a', 'b', 'c', 'd']);
  t.deepEqual([...(await claimLeadership(db, [candidate('b', 'b')], theirs)).keys()], ['b']);
  t.deepEqual([...(await claimLeadership(db, shards, mine)).keys()].toSorted(), ['a', 'c']);
  t.deepEqual([...(await claimLeadership(db, shards, theirs)).keys()], ['b']);
  await releaseLeadership(db, ['a', 'b'], mine);
  t.deepEqual([...(await claimLeadership(db, shards, theirs)).keys()].toSorted(), ['a', 'b']);
  t.deepEqual([...(await claimLeadership(db, [candidate('unheard of', 'a')], mine)).keys()], []);
});

test('workers that claim many shards at once do not deadlock', async (t) => {
  const { db } = await openEngine(t);
  const names = Array.from({ length: 8 }, (_, nth) => `lane ${nth}`);
  const workers = Array.from({ length: 8 }, () => newId());
  await Promise.all(workers.map((_, nth) => ensureShards(db, nth % 2 === 0 ? names : names.toReversed())));
  for (let round = 0; round < 10; round += 1) {
    const requested = workers.map(async (worker, nth) => {
      const own = (nth % 2 === 0 ? names : names.toReversed()).map((name) => candidate(name, name));
      return [...(await claimLeadership(db, own, worker)).keys()];
    });
    const leadership = (await Promise.all(requested)).flat();
    t.is(new Set(leadership).size, leadership.length, 'no shard has two leaders');
    await db.query('update queue_shards set leader_until = now()');
  }
});

test('a leader is told whether jobs of its types run, wait or are due for another try', async (t) => {
  const { db } = await openEngine(t);
  const worker = newId();
  const shards = [candidate('b.1of2', 'b'), candidate('c', 'c', false)];
  await ensureShards(db, ['b.1of2', 'c']);
  const add = (type: string, status: string, dueIn: string | null) =>
    db.query(
      `insert into jobs (id, project_id, type, status, data, request_id, next_run_at)
       values ($1, $2, $3, $4, 'null', 'r', now() + $5::interval)`,
      [newId(), newId(), type, status, dueIn],
    );
  const leadership = async () => {
    const leads = await claimLeadership(db, shards, worker);
    return [leads.get('b.1of2'), leads.get('c')];
  };
  await add('another', 'running', null);
  await add('another', 'queued', '-1 second');
  await add('b', 'succeeded', null);
  t.deepEqual(await leadership(), [nothing, nothing]);
  await add('c', 'queued', null);
  t.deepEqual(await leadership(), [nothing, nothing], 'who does not compare is not told what waits');
  await add('b', 'queued', '1 hour');
  t.deepEqual(await leadership(), [{ ...nothing, waiting: true }, nothing]);
  await add('c', 'queued', '-1 second');
  t.deepEqual(await leadership(), [
    { ...nothing, waiting: true },
    { ...nothing, due: true },
  ]);
  await add('b', 'running', null);
  t.deepEqual(await leadership(), [
    { ...nothing, waiting: true, running: true },
    { ...nothing, due: true },
  ]);
});
