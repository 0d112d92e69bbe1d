import { setImmediate } from 'node:timers/promises';
import test from 'ava';
import { createLogAllowance } from '#workers/log-allowance.ts';
import { functionInvokeProcessor } from '#workers/processors/function-invoke.ts';
import { openRuntime } from './harness.ts';

const megabyte = 1024 * 1024;
const never = new AbortController().signal;

/** Whether it resolves without waiting for a timer. */
const isAtOnce = (promise: Promise<void>): Promise<boolean> =>
  Promise.race([promise.then(() => true), setImmediate(false)]);

test('a project that logs too much waits, and another one does not', async (t) => {
  const allowance = createLogAllowance(() => 0);
  const ending = new AbortController();
  allowance.spend('a', 4 * megabyte);
  t.true(await isAtOnce(allowance.ready('a', never)));
  allowance.spend('a', megabyte);
  const waits = allowance.ready('a', ending.signal);
  t.false(await isAtOnce(waits));
  t.true(await isAtOnce(allowance.ready('b', never)));
  ending.abort();
  await waits;
  t.pass('a run that is cancelled does not wait');
});

test('what a project has logged is forgiven at 1 MB a second', async (t) => {
  let now = 0;
  const allowance = createLogAllowance(() => now);
  allowance.spend('a', 6 * megabyte);
  now = 2000;
  t.true(await isAtOnce(allowance.ready('a', never)));
  allowance.spend('a', megabyte);
  now = 2999;
  await allowance.ready('a', AbortSignal.abort());
  const ending = new AbortController();
  t.false(await isAtOnce(allowance.ready('a', ending.signal)));
  ending.abort();
});

test('a run begins when its project may log again, and its log counts', async (t) => {
  const runtime = await openRuntime();
  t.teardown(() => runtime.close());
  const allowed = Promise.withResolvers<void>();
  const spent: [string, number][] = [];
  const lines: string[] = [];
  const processor = functionInvokeProcessor({
    load: () =>
      Promise.resolve({
        compiled: `exports.handler = () => console.log('a line');`,
        language: 'javascript',
        entryPoint: 'handler',
        env: {},
        timeoutMs: 10_000,
        memoryMib: 128,
      }),
    runtimes: { javascript: runtime },
    services: () => ({ call: () => Promise.resolve('null'), close: () => Promise.resolve() }),
    logAllowance: {
      ready: () => allowed.promise,
      spend: (projectId, characters) => spent.push([projectId, characters]),
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
  t.is(spent[0]?.[0], 'p');
  t.true((spent[0]?.[1] ?? 0) > 'a line'.length);
});
