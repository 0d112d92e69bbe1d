import test from 'ava';
import { compileFunction } from '#domain/functions/compile.ts';
import type { RunRequest } from '#workers/runtimes/runtime.ts';
import { openRuntime, request, run } from './harness.ts';

const runtime = await openRuntime();
test.after.always(() => runtime.close());

const runSource = async (source: string, changes: Partial<RunRequest> = {}) =>
  run(runtime, (await compileFunction(source)).code, changes);

test('the handler runs when what the module awaits is there', async (t) => {
  const source = `
    const waited: number = await new Promise((resolve) => setTimeout(resolve, 5, 20));
    const { digest } = await crypto.subtle.digest('SHA-256', new Uint8Array(1)).then((b) => ({ digest: b.byteLength }));
    export const handler = async (payload: { n: number }) => payload.n + waited + digest;`;
  const { status, result } = await runSource(source, { payload: '{"n":1}' });
  t.deepEqual([status, result], ['success', '53']);
});

test('each run evaluates the module once, with state of its own', async (t) => {
  const source = `let calls = 0; await null; console.log('evaluated'); calls += 1;
    export const handler = () => { calls += 1; return calls }`;
  const { code } = await compileFunction(source);
  const requested = request(code);
  for (let i = 0; i < 3; i += 1) {
    const { result, logs } = await runtime.run(requested);
    t.is(result, '2');
    t.deepEqual(
      logs.map(({ message }) => message),
      ['evaluated'],
    );
  }
});

test('a rejected top-level await is the error of the run, with its line, and the handler does not run', async (t) => {
  const source = `
export const handler = () => { console.log('ran') };
await Promise.resolve();
throw new RangeError('too far');`;
  const { status, error, logs } = await runSource(source);
  t.is(status, 'error');
  t.like(error, { name: 'RangeError', message: 'too far' });
  t.regex(error?.stack ?? '', /function\.js:4:/);
  t.notRegex(error?.stack ?? '', /plinth|isolated/);
  t.deepEqual(logs, []);
  t.is((await runSource('await Promise.reject("text"); export const handler = 1')).error?.message, 'text');
});

test('a module that never ends its evaluation is stopped at the limits of the run', async (t) => {
  const waits = await runSource('await new Promise(() => {}); export const handler = () => 1', { timeoutMs: 200 });
  t.is(waits.status, 'timeout');
  const loops = await runSource('await null; for (;;); export const handler = () => 1', { timeoutMs: 300 });
  t.true(['timeout', 'cpu_limit'].includes(loops.status), loops.status);
  const grows =
    'await null; const a = []; for (;;) a.push(new Array(1e5).fill(a.length)); export const handler = () => a';
  t.is((await runSource(grows, { memoryMib: 64 })).status, 'memory_limit');
  t.is((await runSource('await null; export const handler = () => 1')).result, '1');
});

test('the exports of a module are not awaited themselves', async (t) => {
  const source = 'await null; export const then = () => { throw new Error("called") }; export const handler = () => 1';
  t.is((await runSource(source)).result, '1');
});
