import { setImmediate } from 'node:timers/promises';
import test from 'ava';
import { type LogAllowance, createLogAllowance } from '#workers/log-allowance.ts';
import { functionInvokeProcessor } from '#workers/processors/function-invoke.ts';
import { openRuntime } from './harness.ts';

const megabyte = 1024 * 1024;
const never = new AbortController().signal;

type Started = ReturnType<LogAllowance['begin']>;

/** Whether it resolves without waiting for a timer. */
const isAtOnce = (started: Started): Promise<boolean> => Promise.race([started.then(() => true), setImmediate(false)]);

/** One run that logs so much. */
const log = async (allowance: LogAllowance, projectId: string, characters: number): Promise<void> => {
  const end = await allowance.begin(projectId, AbortSignal.abort());
  end(characters);
};

test('a project that logs too much waits, and another one does not', async (t) => {
  const allowance = createLogAllowance(() => 0);
  const ending = new AbortController();
  await log(allowance, 'a', megabyte);
  t.true(await isAtOnce(allowance.begin('a', never)));
  await log(allowance, 'a', 2 * megabyte);
  const waits = allowance.begin('a', ending.signal);
  t.false(await isAtOnce(waits));
  t.true(await isAtOnce(allowance.begin('b', never)));
  ending.abort();
  await waits;
  t.pass('a run that is cancelled does not wait');
});

test('what a project has logged is forgiven at 1 MB a second', async (t) => {
  let now = 0;
  const allowance = createLogAllowance(() => now);
  const ending = new AbortController();
  await log(allowance, 'a', 4 * megabyte);
  now = 1999;
  t.false(await isAtOnce(allowance.begin('a', ending.signal)));
  ending.abort();
  now = 6000;
  t.true(await isAtOnce(allowance.begin('a', never)));
});

test('a run counts as much as the last one until it is over', async (t) => {
  let now = 0;
  const allowance = createLogAllowance(() => now);
  await log(allowance, 'a', 2 * megabyte);
  now = 1000;
  const ending = new AbortController();
  const end = await allowance.begin('a', never);
  const next = allowance.begin('a', ending.signal);
  t.false(await isAtOnce(next), 'it is expected to log 2 MB, too');
  ending.abort();
  await next;
  const other = createLogAllowance(() => now);
  await log(other, 'a', 2 * megabyte);
  now = 2000;
  (await other.begin('a', never))(0);
  t.true(await isAtOnce(other.begin('a', never)), 'it logged nothing');
  end(0);
});

test('a run begins when its project may log again, and its log counts', async (t) => {
  const runtime = await openRuntime();
  t.teardown(() => runtime.close());
  const allowed = Promise.withResolvers<void>();
  const spent: number[] = [];
  const lines: string[] = [];
  const processor = functionInvokeProcessor({
    load: () =>
      Promise.resolve({
        compiled: `exports.handler = () => console.log('a line');`,
        language: 'javascript',
        entryPoint: 'handler',
        env: {},
        envVersion: 0,
        timeoutMs: 10_000,
        memoryMib: 128,
      }),
    runtimes: { javascript: runtime },
    services: () => ({ call: () => Promise.resolve('null'), close: () => Promise.resolve() }),
    logAllowance: {
      begin: async () => {
        await allowed.promise;
        return (characters) => spent.push(characters);
      },
    },
  });
  const run = processor.run(
    { function_id: 'f', version: 1, trigger: 'api', payload: 'null' },
    {
      jobId: 'j',
      projectId: 'p',
      requestId: 'r',
      attempt: 1,
      signal: never,
      progress: () => undefined,
      log: (_level, text) => lines.push(text),
    },
  );
  await setImmediate();
  t.deepEqual(lines, []);
  allowed.resolve();
  t.is((await run).status, 'succeeded');
  t.deepEqual(lines, ['a line']);
  t.is(spent.length, 1);
  t.true((spent[0] ?? 0) > 'a line'.length);
});
