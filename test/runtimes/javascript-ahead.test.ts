import test, { type ExecutionContext } from 'ava';
import type { RunOutcome, RunRequest, Runtime } from '#workers/runtimes/runtime.ts';
import { openRuntime, request } from './harness.ts';

/** The module of a large function is evaluated once, and each run begins in a context of its own with it. */

let runtime: Runtime;

test.before(async () => {
  runtime = await openRuntime({ maxRunners: 20 });
});
test.after.always(() => runtime.close());

/** So long that the module is evaluated ahead. */
const filler = `/*${'x'.repeat(70_000)}*/`;

let projects = 0;

/** Runs of one function in a runner of its own, one after the other. */
const times = async (count: number, code: string, changes: Partial<RunRequest> = {}): Promise<RunOutcome[]> => {
  projects += 1;
  const given = request(filler + code, { projectId: `project-${projects}`, ...changes });
  const outcomes = [];
  for (let n = 0; n < count; n += 1) outcomes.push(await runtime.run({ ...given, payload: JSON.stringify(n) }));
  return outcomes;
};

const results = (t: ExecutionContext, outcomes: readonly RunOutcome[]): unknown[] =>
  outcomes.map(({ status, result, error }) => {
    t.is(status, 'success', JSON.stringify(error));
    return JSON.parse(result ?? 'null') as unknown;
  });

test('the top level is evaluated once for the runs after the first, and each sees it as it was', async (t) => {
  const code = `const id = Math.random(); let count = 0; const list = [1];
    globalThis.seen = [];
    Array.prototype.own = 7;
    exports.handler = (n) => {
      const before = [count, list.length, seen.length, Array.prototype.own, typeof globalThis.leaked, Object.prototype.leaked ?? null];
      count += 1; list.push(n); seen.push(n); Array.prototype.own += 1; globalThis.leaked = n; Object.prototype.leaked = n;
      exports.handler = () => 'replaced';
      setTimeout(() => { count += 1; }, 1);
      return { id, before };
    };`;
  const all = results(t, await times(5, code)) as { id: number; before: unknown[] }[];
  const [first, ...later] = all;
  for (const { before } of all) t.deepEqual(before, [0, 1, 0, 7, 'undefined', null]);
  t.is(new Set(later.map(({ id }) => id)).size, 1, 'the later runs share one evaluation');
  t.not(first?.id, later[0]?.id);
});

test('randomness of a run is its own', async (t) => {
  const code = 'exports.handler = () => [Math.random(), crypto.randomUUID()].join();';
  t.is(new Set(results(t, await times(5, code))).size, 5);
});

const evaluated = 'const id = Math.random(); exports.handler = () => id;';
const isEvaluatedInEach = async (t: ExecutionContext, top: string): Promise<void> => {
  const ids = results(t, await times(4, `${top};${evaluated}`));
  t.is(new Set(ids).size, 4, top);
};

test('a top level that needs a run, or that the engine cannot store, is evaluated in each', async (t) => {
  await isEvaluatedInEach(t, 'const money = new Intl.NumberFormat("de")');
  await isEvaluatedInEach(t, 'try { new Intl.DateTimeFormat() } catch {}');
  await isEvaluatedInEach(t, 'const log = console.log');
  await isEvaluatedInEach(t, 'const later = typeof setTimeout === "function" ? setTimeout : null');
  await isEvaluatedInEach(t, 'globalThis.setTimeout = () => 1');
  await isEvaluatedInEach(t, 'Object.defineProperty(globalThis, "console", { value: 1, configurable: true })');
  await isEvaluatedInEach(t, 'const key = crypto.randomUUID()');
  await isEvaluatedInEach(t, 'const url = new URL("https://example.com/")');
  await isEvaluatedInEach(t, 'Promise.resolve().then(() => console.log("late"))');
  await isEvaluatedInEach(
    t,
    'if (typeof WebAssembly !== "undefined") throw 1; Object.defineProperty(globalThis, "WebAssembly", { value: 1 })',
  );
});

test('what the web has works in a module that was evaluated ahead', async (t) => {
  const code = `const encoder = new TextEncoder(); const headers = new Headers({ a: 'b' }); const { env } = process;
    class Own extends Event {} const list = new URLSearchParams('a=1'); const pattern = /a+/g; const { fetch: get } = globalThis;
    exports.handler = async () => [encoder.encode('ä').length, headers.get('a'), env.NAME, new Own('x').type, list.get('a'),
      pattern.test('aa'), new URL('https://a.b/c').pathname, crypto.getRandomValues(new Uint8Array(4)).length, new Intl.NumberFormat('en').format(1234),
      typeof console.log, typeof setTimeout, typeof performance.now(), await get('https://a.b').catch((error) => error.message)];`;
  const all = results(t, await times(4, code, { env: { NAME: 'value' } }));
  t.like(all[0], [2, 'b', 'value', 'x', '1', true, '/c', 4, '1,234', 'function', 'function', 'number']);
  for (const one of all) t.deepEqual(one, all[0]);
});

test('the engine parts that no function has are not there, whatever the module did to the language', async (t) => {
  const code = `globalThis.stolen = [];
    const keep = (value) => { try { stolen.push(typeof value); } catch {} return value; };
    for (const name of ['WebAssembly', 'SharedArrayBuffer', 'Atomics'])
      Object.defineProperty(globalThis, name, { get: () => 'mine', set: keep, configurable: true });
    Function.prototype.call = function () { stolen.push(typeof globalThis.WebAssembly.Module); };
    Array.prototype[Symbol.iterator] = function* () { stolen.push('iterated'); };
    exports.handler = () => [typeof WebAssembly, typeof SharedArrayBuffer, typeof Atomics, stolen.length];`;
  for (const outcome of await times(4, code)) {
    const found = JSON.parse(outcome.result ?? 'null') as unknown[] | null;
    if (found === null) t.not(outcome.status, 'success');
    else t.false(found.includes('object') || found.includes('function'), outcome.result ?? '');
  }
});

test('stacks have the lines of the source, and other variables are another evaluation', async (t) => {
  const code = `const { NAME } = process.env; exports.handler = () => { if (NAME === 'b') null.x; return NAME; };`;
  const given = request(`${code}${filler}`, { env: { NAME: 'a' }, projectId: 'stacks' });
  for (let n = 0; n < 3; n += 1) t.is((await runtime.run(given)).result, '"a"');
  for (let n = 0; n < 3; n += 1) {
    const { error } = await runtime.run({ ...given, env: { NAME: 'b' } });
    t.regex(error?.stack ?? '', /at exports\.handler \(function\.js:1:80\)/);
  }
  t.is((await runtime.run(given)).result, '"a"');
});

test('a module that ends the process, or never ends, when it is stored costs no run', async (t) => {
  for (const hang of [
    'for (;;);',
    'const all = []; for (;;) all.push(new Array(1e5).fill(1));',
    '(function f() { f(); f(); })()',
    'const all = []; for (;;) all.push(new Uint8Array(1e7).fill(1));',
  ]) {
    // There is no console in the snapshot, which is how hostile code knows.
    const code = `const inRun = (() => { try { return !Object.getOwnPropertyDescriptor(globalThis, 'console').get } catch { return false } })();
      if (!inRun) { ${hang} } exports.handler = () => 1;`;
    const outcomes = await times(3, code, { timeoutMs: 1500, functionId: `hostile-${hang.length}` });
    t.is(outcomes[0]?.status, 'success');
    for (const { status, started } of outcomes) t.true(status === 'success' || !started, `${status} ${started}`);
  }
  t.deepEqual(results(t, await times(2, 'exports.handler = () => 2;')), [2, 2]);
});

/** The fault of a module that a trial finds. */
const faultOf = async (t: ExecutionContext, code: string, changes: Partial<RunRequest> = {}): Promise<unknown> => {
  projects += 1;
  const given = request(filler + code, {
    projectId: `project-${projects}`,
    functionId: `trial-${projects}`,
    ...changes,
  });
  const outcome = await runtime.run({ ...given, isTrial: true });
  t.is(outcome.status, 'success', JSON.stringify(outcome.error));
  return (JSON.parse(outcome.result ?? 'null') as { fault: unknown }).fault;
};

test('a trial says whether a module can be stored, or why not, and calls no handler', async (t) => {
  const handler = 'exports.handler = () => 1;';
  t.is(await faultOf(t, handler), null);
  t.is(
    await faultOf(t, `const { KEY } = process.env; if (KEY !== 'k') throw 1; ${handler}`, { env: { KEY: 'k' } }),
    null,
  );
  t.is(await faultOf(t, `new Intl.NumberFormat('de'); ${handler}`), 'Intl cannot be stored');
  t.is(
    await faultOf(t, `try { console.log(1) } catch {} ${handler}`),
    'console at the top level is there in runs only',
  );
  t.is(await faultOf(t, `throw new TypeError('no key'); ${handler}`), 'the module throws: TypeError: no key');
  t.is(await faultOf(t, `throw { get message() { throw 1 } }; ${handler}`), 'the module throws: Error: [unreadable]');
});

test('runs after a trial begin with what it stored', async (t) => {
  projects += 1;
  const given = request(`${filler}${evaluated}`, { projectId: `project-${projects}` });
  t.is((await runtime.run({ ...given, isTrial: true })).status, 'success');
  const [first, second] = [await runtime.run(given), await runtime.run(given)];
  t.is(typeof JSON.parse(first.result ?? 'null'), 'number');
  t.is(first.result, second.result);
});

test('a module that takes its process with it is known by that, and its runs go on', async (t) => {
  projects += 1;
  const code = `${filler}if (!(() => { try { return !Object.getOwnPropertyDescriptor(globalThis, 'console').get } catch { return false } })()) for (;;);
    exports.handler = () => 1;`;
  const given = request(code, { projectId: `project-${projects}`, functionId: 'endless-trial', timeoutMs: 1500 });
  const first = await runtime.run({ ...given, isTrial: true });
  t.deepEqual([first.status, first.started], ['crashed', false]);
  const { result } = await runtime.run({ ...given, isTrial: true });
  t.regex(result ?? '', /the engine cannot store/);
  t.is((await runtime.run(given)).result, '1');
});
