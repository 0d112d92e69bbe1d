import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';

const { scene, platform } = useJobsApi(test);

interface ShownStep {
  readonly name: string;
  readonly status: string;
  readonly attempt: number;
  readonly started_at: string;
  readonly finished_at: string | null;
  readonly result: unknown;
  readonly error: { readonly name: string; readonly message: string } | null;
}

const brief = (steps: readonly ShownStep[]) => steps.map(({ name, status, result }) => [name, status, result]);

test('a run sleeps between two steps, and each of them is done once', async (t) => {
  const one = await scene(`exports.handler = async (payload, { step, db }) => {
    await db.query('create table if not exists effects (name text)');
    const note = (name) => step.run(name, async () => {
      await db.insert('effects', { name });
      return { did: name };
    });
    const first = await note('first');
    await step.sleep(300);
    const second = await note('second');
    return [first, second, await db.query('select name from effects order by 1')];
  }`);
  const id = await one.begin();
  const job = await one.jobWhen(id, 'succeeded', 'failed');
  t.is(job.status, 'succeeded', JSON.stringify(job));
  t.deepEqual(job.result.result, [{ did: 'first' }, { did: 'second' }, [{ name: 'first' }, { name: 'second' }]]);
  t.deepEqual(brief(job.steps), [
    ['first', 'succeeded', { did: 'first' }],
    ['sleep', 'succeeded', null],
    ['second', 'succeeded', { did: 'second' }],
  ]);
  t.is(job.attempt, 1);
  void platform;
});
