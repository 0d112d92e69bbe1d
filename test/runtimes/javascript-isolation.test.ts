import { readlinkSync } from 'node:fs';
import test from 'ava';
import { guests, openRuntime, request, resultOf } from './harness.ts';

const runtime = await openRuntime();
test.after.always(() => runtime.close());

test('a context never sees the globals of the run before', async (t) => {
  const code = 'exports.handler = () => { globalThis.count = (globalThis.count ?? 0) + 1; return globalThis.count }';
  const again = request(code);
  for (let i = 0; i < 5; i += 1) t.is((await runtime.run(again)).result, '1');
});

test('module state does not outlive a run', async (t) => {
  const again = request('let n = 0; exports.handler = () => (n += 1)');
  for (let i = 0; i < 5; i += 1) t.is((await runtime.run(again)).result, '1');
});

const pollution = `
  const poison = () => { throw new Error('poisoned') };
  for (const prototype of [Object.prototype, Array.prototype, Function.prototype, String.prototype, Promise.prototype, Map.prototype, Error.prototype])
    for (const name of Object.getOwnPropertyNames(prototype))
      try { Object.defineProperty(prototype, name, { value: poison, configurable: true }) } catch {}
  Object.defineProperty(Object.prototype, 'polluted', { value: 'yes', configurable: true });
  JSON.stringify = poison; JSON.parse = poison; Object.keys = poison; Reflect.apply = poison; globalThis.Promise = poison;
  Error.prepareStackTrace = poison;`;

test('prototype pollution stays in its own run', async (t) => {
  const code = `exports.handler = (p) => { if (p.evil) { ${pollution} } return [({}).polluted ?? null, [3, 1].sort().map((n) => n * 2), JSON.stringify({ a: 1 })] }`;
  const fn = request(code);
  await runtime.run({ ...fn, payload: '{"evil":true}' });
  const after = await runtime.run({ ...fn, payload: '{}' });
  t.is(after.result, '[null,[2,6],"{\\"a\\":1}"]');
  t.deepEqual(await resultOf(t, runtime, 'exports.handler = () => ({}).polluted ?? null'), null);
});

test('a poisoned run ends with a status like any other', async (t) => {
  const outcome = await runtime.run(
    request(
      `${pollution}; exports.handler = () => { console.log('x'); setTimeout(() => {}, 1); throw new Error('end') }`,
      { timeoutMs: 2000 },
    ),
  );
  t.true(['error', 'timeout'].includes(outcome.status), outcome.status);
  t.is(await resultOf(t, runtime, 'exports.handler = () => 1'), 1);
});

test('no constructor leads out of the isolate', async (t) => {
  const code = `exports.handler = async (payload, sdk) => {
    const probe = \`return typeof process.binding + typeof process.mainModule + typeof process.pid + typeof require + typeof XMLHttpRequest + typeof Deno\`;
    const values = [payload, sdk, sdk.env, console, console.log, setTimeout, setTimeout(() => {}, 0), process, Promise.resolve(), new Error('x'), structuredClone, queueMicrotask, module, require, exports, fetch, URL, new URL('http://a'), crypto, crypto.subtle, crypto.getRandomValues(new Uint8Array(1)).buffer, crypto.randomUUID, await crypto.subtle.digest('SHA-1', new Uint8Array(1)), await crypto.subtle.generateKey('Ed25519', true, ['sign']), Buffer, new Response('x').body, await fetch('http://a').catch((error) => error), await crypto.subtle.digest('none', new Uint8Array(1)).catch((error) => error), (() => { try { new URL('') } catch (error) { return error } })()];
    const seen = new Set();
    for (const value of values) seen.add(value.constructor.constructor(probe)());
    try { null.x } catch (error) { seen.add(error.constructor.constructor(probe)()) }
    try { require('x') } catch (error) { seen.add(error.constructor.constructor(probe)()) }
    Error.prepareStackTrace = (error, sites) => sites.map((site) => [site.getThis(), site.getFunction()]);
    for (const pair of new Error('x').stack) for (const value of pair) if (value != null) seen.add(value.constructor.constructor(probe)());
    return [...seen];
  }`;
  const kinds = 'undefined'.repeat(6);
  t.deepEqual(await resultOf(t, runtime, code, { payload: '{}' }), [kinds]);
});

test('rejections that a run leaves behind do not reach the next one', async (t) => {
  const code = `exports.handler = (p) => { if (p) for (let i = 0; i < 5; i += 1) Promise.reject(new Error('mine')).finally(() => Promise.reject(1)); return 1 }`;
  const fn = request(code);
  for (let i = 0; i < 5; i += 1) {
    await runtime.run({ ...fn, payload: 'true' });
    t.is((await runtime.run({ ...fn, payload: 'false' })).status, 'success');
  }
});

test('a callback that outlives its run cannot act in the next one', async (t) => {
  const code = `exports.handler = async (p) => {
    if (p) {
      new FinalizationRegistry(() => { for (;;); }).register({}, 1);
      setTimeout(() => { for (;;); }, 1); setImmediate(() => { for (;;); }); setInterval(() => console.log('late'), 1);
      return 1;
    }
    await new Promise((resolve) => setTimeout(resolve, 30));
    return 2;
  }`;
  const fn = request(code);
  t.is((await runtime.run({ ...fn, payload: 'true' })).result, '1');
  const next = await runtime.run({ ...fn, payload: 'false' });
  t.is(next.result, '2');
  t.deepEqual(next.logs, []);
});

test('functions and versions do not see each other', async (t) => {
  const first = request('globalThis.mine = 1; exports.handler = () => [typeof mine, typeof theirs]', {
    functionId: 'shared',
  });
  const second = request('globalThis.theirs = 1; exports.handler = () => [typeof mine, typeof theirs]', {
    functionId: 'shared',
    version: 2,
  });
  for (let i = 0; i < 3; i += 1) {
    t.is((await runtime.run(first)).result, '["number","undefined"]');
    t.is((await runtime.run(second)).result, '["undefined","number"]');
  }
});

test('a runner serves more functions than it keeps', async (t) => {
  const many = Array.from({ length: 12 }, (_, n) => request(`exports.handler = () => ${n}`));
  for (let round = 0; round < 2; round += 1) {
    for (const [n, fn] of many.entries()) t.is((await runtime.run(fn)).result, String(n));
  }
});

test('a large payload and a large result pass whole', async (t) => {
  const payload = JSON.stringify('é'.repeat(3_000_000));
  const outcome = await runtime.run(request('exports.handler = (p) => [p.length, p.slice(0, 500_000)]', { payload }));
  const [length, text] = JSON.parse(outcome.result ?? '[]') as [number, string];
  t.is(length, 3_000_000);
  t.is(text, 'é'.repeat(500_000));
});

test('there is no network and no file system to name', async (t) => {
  const names = ['XMLHttpRequest', 'WebSocket', 'EventSource', 'Deno', 'Bun'];
  const code = `exports.handler = () => ${JSON.stringify(names)}.map((name) => typeof globalThis[name])`;
  t.deepEqual(await resultOf(t, runtime, code), Array(names.length).fill('undefined'));
});

// Alone: the other tests of this file start and end processes too.
test.serial('projects that run at the same time have a process each, and a project one for each run', async (t) => {
  const together = await openRuntime({ maxRunners: 6, spares: 0 });
  t.teardown(() => together.close());
  const before = new Set(guests());
  const abort = new AbortController();
  let here = 0;
  const started = new Promise<number[]>((resolve) => {
    const onLog = (): void => {
      here += 1;
      if (here === 6) resolve(guests().filter((pid) => !before.has(pid)));
    };
    for (const projectId of ['a', 'b', 'c', 'a', 'b', 'c']) {
      const code = 'exports.handler = () => { console.log("here"); return new Promise(() => {}) }';
      void together.run(request(code, { projectId }), { onLog, signal: abort.signal });
    }
  });
  const programs = (await started).filter(isNode);
  t.is(programs.length, 6);
  abort.abort();
});

const isNode = (pid: number): boolean => {
  try {
    return !readlinkSync(`/proc/${pid}/exe`).endsWith('bwrap');
  } catch {
    return false;
  }
};
