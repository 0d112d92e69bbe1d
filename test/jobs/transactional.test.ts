import test from 'ava';
import { useJobsApi } from './scene.ts';

const { platform, scene } = useJobsApi(test);

test('jobs that a transaction enqueues exist only if it commits, in both languages', async (t) => {
  const { client, db } = platform();
  const s = await scene(`
    export const handler = async (fails, sdk) => {
      let id;
      await sdk.db.transaction(async (tx) => {
        await tx.insert('orders', { id: fails ? 1 : 2 });
        ({ job_id: id } = await tx.jobs.enqueue(sdk.env.TARGET, { fails }, { priority: 3 }));
        if (fails) throw new Error('rolled back');
      }).catch((error) => { if (!fails) throw error; });
      return id;
    };`);
  const target = await client.deploy(s.user, s.project, 'export const handler = (payload) => payload;');
  await s.ask('PATCH', `/functions/${s.fn.id}`, { body: { env_vars: { TARGET: target.slug } } });
  await s.ask('POST', '/db/query', { body: { sql: 'create table orders (id int primary key)' } });
  const idOf = async (fn: { id: string; slug: string }, payload: unknown): Promise<string> => {
    const { body } = await client.invoke(s.user, s.project, fn, payload);
    t.is(body.status, 'success', JSON.stringify(body));
    return body.result;
  };
  const within = await client.deploy(
    s.user,
    s.project,
    `export const handler = async (_, sdk) => {
      let id;
      await sdk.db.transaction(async () => {
        ({ job_id: id } = await sdk.jobs.enqueue(sdk.env.TARGET, 1));
        throw new Error('rolled back');
      }).catch(() => undefined);
      return [id, (await sdk.jobs.enqueue(sdk.env.TARGET, 2)).job_id];
    };`,
    { env_vars: { TARGET: target.slug } },
  );
  const [undone = '', after = ''] = (await client.invoke(s.user, s.project, within, null)).body.result as string[];
  t.is((await s.jobWhen(after, 'succeeded')).result.result, 2);
  t.deepEqual(await db.query('select id from jobs where id = $1', [undone]), []);
  const lost = await idOf(s.fn, true);
  const kept = await idOf(s.fn, false);
  const job = await s.jobWhen(kept, 'succeeded');
  t.deepEqual([job.result.result, job.priority], [{ fails: false }, 3]);

  const python = await client.deploy(
    s.user,
    s.project,
    `def handler(payload, sdk):
    with sdk.db.transaction() as tx:
        first = tx.jobs.enqueue(sdk.env.TARGET, {'n': 1})['job_id']
    second = sdk.jobs.enqueue(sdk.env.TARGET, 2, priority=4)['job_id']
    try:
        with sdk.db.transaction():
            third = sdk.jobs.enqueue(sdk.env.TARGET, 3)['job_id']
            raise ValueError('rolled back')
    except ValueError:
        return [first, second, third]
`,
    { language: 'python', env_vars: { TARGET: target.slug } },
  );
  const { body } = await client.invoke(s.user, s.project, python, null);
  t.is(body.status, 'success', JSON.stringify(body));
  const [inside, beside, neither] = body.result as string[];
  t.deepEqual((await s.jobWhen(inside ?? '', 'succeeded')).result.result, { n: 1 });
  t.is((await s.jobWhen(beside ?? '', 'succeeded')).result.result, 2);
  t.deepEqual(await db.query('select id from jobs where id = any ($1::uuid[])', [[lost, neither]]), []);

  const hostile = await s.ask('POST', '/db/query', { body: { sql: `select plinth_api.keep_jobs('{"slug": 1}')` } });
  t.true(hostile.status === 200 || hostile.status === 400);
  t.is((await client.invoke(s.user, s.project, s.fn, true)).status, 200);
});
