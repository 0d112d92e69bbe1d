import test, { type ExecutionContext } from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';
import { noPython } from '#test/runtimes/python-harness.ts';

const { scene, platform } = useJobsApi(test);

type Language = 'javascript' | 'python';

/** The same run in both languages. */
const each = (
  title: string,
  code: Readonly<Record<Language, string>>,
  body: (t: ExecutionContext, one: Scene) => Promise<void>,
): void => {
  for (const language of ['javascript', 'python'] as const) {
    const run = language === 'python' && noPython !== null ? test.skip : test;
    run(`${language}: ${title}`, async (t) => body(t, await sceneIn(language, code[language])));
  }
};

const sceneIn = async (language: Language, code: string) => {
  const one = await scene('exports.handler = (sql, { db }) => db.query(sql);');
  const { client } = platform();
  await client.invoke(
    one.user,
    one.project,
    one.fn,
    'create table effects (id bigint generated always as identity, name text)',
  );
  const fn = await client.deploy(one.user, one.project, code, { language, timeout_ms: 20_000 });
  const effects = async (): Promise<string[]> => {
    const { body } = await client.invoke(one.user, one.project, one.fn, 'select name from effects order by id');
    return (body.result as { name: string }[]).map(({ name }) => name);
  };
  const enqueue = async (body: object = {}): Promise<string> =>
    (await one.ask('POST', `/functions/${fn.id}/jobs`, { body })).body.jobs[0].job_id;
  return { ...one, fn, effects, enqueue };
};
type Scene = Awaited<ReturnType<typeof sceneIn>>;

const brief = (steps: readonly { name: string; status: string; attempt: number }[]) =>
  steps.map(({ name, status, attempt }) => `${name} ${status} ${attempt}`);

each(
  'steps with results are not done again, equal names are numbered, and sleeps are over at their times',
  {
    javascript: `exports.handler = async (payload, { step, db }) => {
      const note = () => step.run('note', async () => (await db.insert('effects', { name: 'note' })).id);
      const first = await note();
      await step.sleep(50);
      const second = await note();
      await step.sleepUntil(new Date(Date.now() - 1000));
      return { first, second, third: await note(), nothing: await step.run('nothing', () => undefined) };
    }`,
    python: `import datetime
def handler(payload, sdk):
    note = lambda: sdk.step.run('note', lambda: sdk.db.insert('effects', {'name': 'note'})['id'])
    first = note()
    sdk.step.sleep(50)
    second = note()
    sdk.step.sleep_until(datetime.datetime.now() - datetime.timedelta(seconds=1))
    return {'first': first, 'second': second, 'third': note(), 'nothing': sdk.step.run('nothing', lambda: None)}
`,
  },
  async (t, one) => {
    const job = await one.jobWhen(await one.enqueue(), 'succeeded', 'failed');
    t.deepEqual(job.result.result, { first: 1, second: 2, third: 3, nothing: null }, JSON.stringify(job));
    t.deepEqual(brief(job.steps), [
      'note succeeded 1',
      'sleep succeeded 1',
      'note#2 succeeded 1',
      'sleep#2 succeeded 1',
      'note#3 succeeded 1',
      'nothing succeeded 1',
    ]);
    t.deepEqual(await one.effects(), ['note', 'note', 'note']);
  },
);

each(
  'a step is tried again by the policy of the function, and its last failure is the code’s to handle',
  {
    javascript: `exports.handler = async (payload, { step, db }) => {
      await step.run('before', () => db.insert('effects', { name: 'before' }));
      const caught = await step.run('fails', async () => {
        await db.insert('effects', { name: 'try' });
        throw new RangeError('no luck');
      }).catch(({ name, message }) => ({ name, message }));
      return { caught, after: await step.run('after', () => 1) };
    }`,
    python: `def handler(payload, sdk):
    sdk.step.run('before', lambda: sdk.db.insert('effects', {'name': 'before'}))
    def fails():
        sdk.db.insert('effects', {'name': 'try'})
        raise IndexError('no luck')
    caught = None
    try:
        sdk.step.run('fails', fails)
    except IndexError as error:
        caught = {'name': type(error).__name__, 'message': str(error)}
    return {'caught': caught, 'after': sdk.step.run('after', lambda: 1)}
`,
  },
  async (t, one) => {
    await one.ask('PATCH', `/functions/${one.fn.id}`, {
      body: { retry: { max_attempts: 3, base_ms: 10, backoff: 'fixed' } },
    });
    const job = await one.jobWhen(await one.enqueue(), 'succeeded', 'failed', 'dead');
    t.deepEqual(
      job.result?.result,
      { caught: { name: job.result.result.caught.name, message: 'no luck' }, after: 1 },
      JSON.stringify(job),
    );
    t.regex(job.result.result.caught.name, /RangeError|IndexError/);
    t.deepEqual(brief(job.steps), ['before succeeded 1', 'fails failed 3', 'after succeeded 1']);
    t.like(job.steps[1].error, { message: 'no luck' });
    t.deepEqual(await one.effects(), ['before', 'try', 'try', 'try']);
    t.is(job.attempt, 1);
  },
);

each(
  'a step that fails for good fails its run once, whatever attempts the job has',
  {
    javascript: `exports.handler = (payload, { step, db }) => step.run('fails', async () => {
      await db.insert('effects', { name: 'try' });
      throw new TypeError('never');
    });`,
    python: `def handler(payload, sdk):
    def fails():
        sdk.db.insert('effects', {'name': 'try'})
        raise TypeError('never')
    return sdk.step.run('fails', fails)
`,
  },
  async (t, one) => {
    const retry = { max_attempts: 2, base_ms: 10, backoff: 'fixed' };
    const job = await one.jobWhen(await one.enqueue({ retry }), 'succeeded', 'failed', 'dead');
    t.deepEqual([job.status, job.error.code, job.error.message], ['dead', 'error', 'never'], JSON.stringify(job));
    t.deepEqual(await one.effects(), ['try', 'try']);
    const again = await one.ask('POST', `/jobs/${job.id}/retry`);
    t.is(again.status, 202, again.text);
    t.is((await one.jobWhen(job.id, 'succeeded', 'failed', 'dead')).status, 'dead');
    t.is((await one.effects()).length, 4);
  },
);

each(
  'several steps go on at the same time, and the run sleeps once nothing else is left',
  {
    javascript: `exports.handler = async (payload, { step, db }) => {
      const note = (name) => step.run(name, async () => { await db.insert('effects', { name }); return name; });
      return step.all([
        (async () => { await note('a1'); await step.sleep(100); return note('a2'); })(),
        (async () => { await note('b1'); await step.sleep(50); return note('b2'); })(),
      ]);
    }`,
    python: `import asyncio
async def handler(payload, sdk):
    def note(name):
        def work():
            sdk.db.insert('effects', {'name': name})
            return name
        return sdk.step.run(name, work)
    async def branch(name, ms):
        await note(name + '1')
        await sdk.step.sleep(ms)
        return await note(name + '2')
    return await sdk.step.all([branch('a', 100), branch('b', 50)])
`,
  },
  async (t, one) => {
    const job = await one.jobWhen(await one.enqueue(), 'succeeded', 'failed', 'dead');
    t.deepEqual(job.result?.result, ['a2', 'b2'], JSON.stringify(job));
    t.deepEqual((await one.effects()).toSorted(), ['a1', 'a2', 'b1', 'b2']);
  },
);

each(
  'code that does not ask for what is recorded fails, and does nothing new',
  {
    javascript: `exports.handler = async (payload, { step, db }) => {
      const [{ count }] = await db.query("select count(*)::int from effects where name = 'run'");
      await db.insert('effects', { name: 'run' });
      await step.run(count === 0 ? 'old' : 'new', () => db.insert('effects', { name: count === 0 ? 'old' : 'new' }));
      await step.sleep(20);
    }`,
    python: `def handler(payload, sdk):
    count = len(sdk.db.query("select 1 from effects where name = 'run'"))
    sdk.db.insert('effects', {'name': 'run'})
    name = 'old' if count == 0 else 'new'
    sdk.step.run(name, lambda: sdk.db.insert('effects', {'name': name}))
    sdk.step.sleep(20)
`,
  },
  async (t, one) => {
    const job = await one.jobWhen(
      await one.enqueue({ retry: { max_attempts: 3, base_ms: 1 } }),
      'succeeded',
      'failed',
      'dead',
    );
    t.deepEqual([job.status, job.error?.code], ['dead', 'steps_changed'], JSON.stringify(job));
    t.regex(job.error.message, /"old"/);
    t.deepEqual(await one.effects(), ['run', 'old', 'run']);
  },
);
