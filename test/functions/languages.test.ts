import test from 'ava';
import { functionInvoke } from '#queues/function-invoke.ts';
import { jobs } from '#queues/registry.ts';
import { readyProject } from '#test/cron/ready-project.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { startEngine } from '#workers/engine.ts';

const platform = usePlatform(test, { worker: false });

const run = () => Promise.reject(new Error('nothing is run here'));

/** A worker that says that it runs JavaScript only, and runs nothing. */
const startWorker = async (): Promise<() => Promise<void>> => {
  const { config, db } = platform();
  const processors = { [functionInvoke.type]: { sandbox: { javascript: 'strict' }, run } } as const;
  const engine = await startEngine({ config, db, log: memoryLog().log, jobs, served: [functionInvoke], processors });
  return async () => {
    await engine.drain();
    await engine.close();
  };
};

let stopWorker: (() => Promise<void>) | undefined;
test.before('a worker', async () => {
  stopWorker = await startWorker();
});
test.after.always('the worker stops', () => stopWorker?.());

const setUp = async () => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await readyProject(platform(), user, 'free');
  await until(async () => Boolean((await client.call('GET', '/readyz')).body.sandbox));
  const path = `/projects/${project.id}/functions`;
  const send = (method: string, url: string, body: object) => client.call(method, url, { token: user.token, body });
  return { path, send };
};

const python = { name: 'fn', language: 'python', code: 'def handler(payload, sdk):\n  return 1' };

test('a language that no worker runs is 501, and nothing is deployed', async (t) => {
  const { path, send } = await setUp();
  const { status, body } = await send('POST', path, python);
  t.is(status, 501);
  t.is(body.code, 'feature_unavailable');
  t.regex(body.message, /python/);
  t.is(
    (await send('POST', path, { name: 'fn', language: 'javascript', code: 'exports.handler = () => 1' })).status,
    201,
  );
});

test('the entry point is a name of its language', async (t) => {
  const { path, send } = await setUp();
  const refused = await send('POST', path, { ...python, entry_point: 'handle$' });
  t.is(refused.status, 400);
  t.is(refused.body.details[0].path, 'entry_point');
  const code = 'exports.handle$ = () => 1';
  const made = await send('POST', path, { name: 'fn', language: 'javascript', code, entry_point: 'handle$' });
  t.is(made.status, 201);
});
