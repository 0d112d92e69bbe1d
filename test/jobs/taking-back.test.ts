import test, { type ExecutionContext } from 'ava';
import { acceptWith } from '#domain/jobs/accept.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { openEngine, testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';

/** Accepts a job that the gate does not take, while Postgres fails as many transactions as it is told to. */
const refused = async (
  t: ExecutionContext,
  failures: number,
  meanwhile: (db: ControlDb, id: string) => Promise<unknown>,
) => {
  const { db } = await openEngine(t);
  const [id, projectId] = [newId(), newId()];
  let tried = 0;
  let undone = 0;
  const transaction: ControlDb['transaction'] = (work, settings) => {
    tried += 1;
    return tried <= failures ? Promise.reject(new Error('Postgres is away')) : db.transaction(work, settings);
  };
  const accept = acceptWith({
    waitingBytes: { free: 0, pro: 0, enterprise: 0 },
    waitingJobs: 100,
    db: { ...db, transaction },
    gate: {
      admit: async () => {
        await meanwhile(db, id);
        throw new Error('Redis is away');
      },
    },
  });
  const { type, maxAttempts } = testJobs.once;
  const request = {
    job: testJobs.once,
    projectId,
    requestId: 'r1',
    data: null,
    undo: () => Promise.resolve(void (undone += 1)),
  };
  const row = { id, projectId, type, data: 'null', maxAttempts, requestId: 'r1' };
  return {
    accepted: accept(request, row),
    rows: () => db.query<{ status: string }>('select status from jobs where id = $1', [id]),
    tried: () => tried,
    undone: () => undone,
  };
};

const begin = (db: ControlDb, id: string) => db.query(`update jobs set status = 'running' where id = $1`, [id]);

test('a job that the gate did not take is taken back once Postgres is there again', async (t) => {
  const { accepted, rows, undone } = await refused(t, 2, () => Promise.resolve());
  await t.throwsAsync(accepted, { message: 'Redis is away' });
  await until(async () => (await rows()).length === 0);
  await until(() => undone() === 1);
  t.pass();
});

test('one that a worker has begun meanwhile stays', async (t) => {
  const { accepted, rows, tried, undone } = await refused(t, 1, begin);
  await t.throwsAsync(accepted, { message: 'Redis is away' });
  await until(() => tried() === 2);
  t.deepEqual(await rows(), [{ status: 'running' }]);
  t.is(undone(), 0);
});
