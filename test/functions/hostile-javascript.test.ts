import test from 'ava';
import { type Case, useHostileScene } from './hostile-scene.ts';

const { suffer, deploy, invoke, calm } = useHostileScene(test);

const handler = (body: string): string => `exports.handler = async (payload, sdk) => { ${body} }`;

const endless: Record<string, Case> = {
  'a synchronous loop': [handler('for (;;);'), 'timeout'],
  'a loop of microtasks': [handler('for (;;) await null;'), 'timeout'],
  'a chain of thens': [
    handler('const next = () => Promise.resolve().then(next); return next()'),
    'timeout',
    'memory_limit',
  ],
  'a promise that never resolves': [handler('return new Promise(() => {})'), 'timeout'],
  'timers without end': [handler('return new Promise(() => setInterval(() => {}, 0))'), 'timeout'],
  'a loop while the text is loaded': ['for (;;); exports.handler = () => 1', 'timeout'],
  'a loop behind a top-level await': ['await null; for (;;); export const handler = () => 1', 'timeout'],
  'a regular expression that explodes': [handler('return /^(a+)+$/.test("a".repeat(40) + "b")'), 'timeout'],
  'a replace that explodes': [handler('return "x".repeat(50000).replace(/(x+x+)+y/, "")'), 'timeout', 'success'],
  'a comparison that never ends': [handler('return [2, 1, 3].sort(() => { for (;;); })'), 'timeout'],
  'a getter that never ends': [handler('return { get a() { for (;;); } }'), 'timeout'],
  'a toJSON that never ends': [handler('return { toJSON() { for (;;); } }'), 'timeout'],
  'a toJSON that answers itself': [handler('const o = { toJSON() { return { o } } }; return o'), 'error', 'timeout'],
  'a thenable that never ends': [handler('return { then() { for (;;); } }'), 'timeout'],
  'a thenable that answers itself': [
    handler('const o = { then(f) { f(o) } }; return o'),
    'timeout',
    'error',
    'memory_limit',
  ],
  'a proxy that never ends': [handler('return new Proxy({}, { ownKeys() { for (;;); } })'), 'timeout'],
  'an iterator that never ends': [
    handler('return [...{ *[Symbol.iterator]() { for (;;) yield 1 } }]'),
    'timeout',
    'memory_limit',
    'error',
  ],
  'a number of astronomic size': [handler('let n = 3n; for (;;) n *= n;'), 'timeout', 'memory_limit', 'error'],
  'a power of astronomic size': [
    handler('return String(7n ** 10000000n).length'),
    'timeout',
    'memory_limit',
    'error',
    'success',
  ],
  'JSON of itself': [handler('let s = "x"; for (;;) s = JSON.stringify(s);'), 'timeout', 'memory_limit', 'error'],
  'a loop that outlives the answer': [handler('(async () => { for (;;) await null })(); return 1'), 'timeout'],
  'a loop in an error’s own message': [handler('throw { get message() { for (;;); } }'), 'timeout'],
  'a loop in prepareStackTrace': [
    handler('Error.prepareStackTrace = () => { for (;;); }; throw new Error("x")'),
    'timeout',
    'error',
  ],
  'waiting without Atomics': [
    handler('return [typeof Atomics, typeof SharedArrayBuffer, typeof WebAssembly]'),
    'success',
  ],
};

const strange: Record<string, Case> = {
  'deep recursion': [handler('const f = (n) => f(n + 1) + 1; return f(0)'), 'error'],
  'recursion through toString': [handler('const o = { toString() { return `${o}` } }; return `${o}`'), 'error'],
  'an array that nests a million deep': [
    handler('let a = []; for (let i = 0; i < 1e6; i += 1) a = [a]; return a'),
    'error',
    'memory_limit',
  ],
  'a circular result': [handler('const o = {}; o.o = o; return o'), 'error'],
  'a BigInt': [handler('return { n: 1n }'), 'error'],
  'a symbol': [handler('return Symbol("s")'), 'success'],
  'a getter that throws': [handler('return { get a() { throw new Error("no") } }'), 'error'],
  'a revoked proxy': [handler('const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy'), 'error'],
  'a proxy that lies': [
    handler('return new Proxy([], { get: (o, k) => (k === "length" ? 1e9 : 1) })'),
    'timeout',
    'memory_limit',
    'error',
    'result_too_large',
  ],
  'throw null': [handler('throw null'), 'error'],
  'throw undefined': [handler('throw undefined'), 'error'],
  'an error that cannot be read': [
    handler('throw new Proxy(new Error("x"), { get() { throw 1 }, getPrototypeOf() { throw 2 } })'),
    'error',
  ],
  'an error of twenty megabytes': [
    handler('const e = new Error("m".repeat(5e6)); e.stack = "s".repeat(5e6); throw e'),
    'error',
  ],
  'a result of two megabytes': [handler('return "x".repeat(2e6)'), 'result_too_large'],
  'a result of ten thousand keys': [
    handler('return Object.fromEntries(Array.from({ length: 1e4 }, (_, i) => [i, i]))'),
    'success',
  ],
  'a log of fifty megabytes': [
    handler('for (let i = 0; i < 5000; i += 1) console.log("y".repeat(10000)); return 1'),
    'success',
    'timeout',
    'memory_limit',
  ],
  'a log line that is a frame': [
    handler(
      'console.log(JSON.stringify({ type: "result", run: 1, status: "success", result: "\\"forged\\"", error: null, cpuMs: 0, memoryMib: 0 })); console.log("\\0\\0\\0\\2{}"); return "mine"',
    ),
    'success',
  ],
  'a log of NUL and lone surrogates': [
    handler('console.log("\\0 \\ud800 \\udfff \\u2028 \\x1b[31m"); return 1'),
    'success',
  ],
  'an unhandled rejection after the answer': [
    handler('setTimeout(() => Promise.reject(new Error("late")), 1); Promise.reject(new Error("now")); return 1'),
    'success',
    'error',
  ],
  'timers after the answer': [
    handler('setTimeout(() => { for (;;); }, 1); setInterval(() => console.log("late"), 1); return 1'),
    'success',
    'timeout',
  ],
  'process.exit, kill and abort': [
    handler(
      'for (const f of ["exit", "kill", "abort", "reallyExit", "binding", "dlopen"]) try { process[f](0) } catch {} return 1',
    ),
    'success',
  ],
  'ten thousand calls': [
    handler(
      'const r = await Promise.allSettled(Array.from({ length: 10000 }, () => sdk.db.query("select 1"))); return r.length',
    ),
    'success',
    'timeout',
    'memory_limit',
    'error',
  ],
  'calls without waiting': [
    handler('for (;;) sdk.db.query("select 1").catch(() => {})'),
    'timeout',
    'memory_limit',
    'error',
  ],
  'a call of forty megabytes': [
    handler('const e = await sdk.db.query("x".repeat(4e7)).catch((error) => error); return String(e).slice(0, 100)'),
    'success',
    'error',
    'memory_limit',
    'timeout',
    'crashed',
  ],
  'calls whose arguments loop': [
    handler('const o = { toJSON() { return [o] } }; await sdk.db.query("select 1", o)'),
    'error',
  ],
  'ten thousand timers': [
    handler('for (let i = 0; i < 1e4; i += 1) setTimeout(() => {}, 5000); return 1'),
    'success',
    'memory_limit',
  ],
};

const groups = { endless, strange };

for (const cases of Object.values(groups)) {
  for (const [what, hostile] of Object.entries(cases)) {
    test.serial(`${what} ends with ${hostile.slice(1).join(' or ')}, and the next run is unharmed`, async (t) => {
      // Time runs out only for those that are meant to run out of it, however busy the machine is.
      await suffer(t, hostile, hostile.includes('timeout') ? {} : { timeout_ms: 20_000 });
    });
  }
}

test.serial('a frame that is written as a log line is a log line', async (t) => {
  const { body } = await suffer(t, strange['a log line that is a frame'] ?? ['']);
  t.is(body.result, 'mine');
  t.is(body.logs.length, 2);
});

/** Says where code that was made by a constructor runs: in the isolate none of these is there. */
const probe =
  'return [typeof process.binding, typeof process.kill, typeof process.getBuiltinModule, typeof process.mainModule, typeof require].join()';

test.serial('no constructor of anything that crosses the boundary leads out of the isolate', async (t) => {
  const walk = handler(`
    const found = new Set(), seen = new Set();
    const tryOne = (value) => { try { found.add(value.constructor.constructor(${JSON.stringify(probe)})()) } catch (error) { if (error !== null && typeof error === 'object') seen.has(error) || queue.push(error) } };
    const queue = [payload, sdk, globalThis, module, exports, require, process, console];
    for (const op of Object.keys(sdk.db)) {
      try { const promise = sdk.db[op]('select 1', {}, '1 = 0'); queue.push(promise); queue.push(await promise) } catch (error) { queue.push(error) }
    }
    try { null.x } catch (error) { queue.push(error) }
    try { require('x') } catch (error) { queue.push(error) }
    try { await import('x') } catch (error) { queue.push(error) }
    const trace = {}; Error.captureStackTrace(trace); queue.push(trace);
    Error.prepareStackTrace = (error, sites) => sites.flatMap((site) => [site, site.getThis?.(), site.getFunction?.(), site.getEvalOrigin?.()]);
    for (const value of new Error('x').stack ?? []) queue.push(value);
    for (const op of ['query', 'insert']) sdk.db[op]('x').catch((error) => { for (const value of [].concat(error.stack)) queue.push(value) });
    await new Promise((resolve) => setTimeout(resolve, 20));
    while (queue.length > 0 && seen.size < 5000) {
      const value = queue.pop();
      if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) continue;
      seen.add(value); tryOne(value);
      for (const key of Reflect.ownKeys(value)) {
        try { const d = Object.getOwnPropertyDescriptor(value, key); queue.push(d.value, d.get, d.set) } catch {}
      }
      queue.push(Object.getPrototypeOf(value));
    }
    return { found: [...found], seen: seen.size };`);
  const { body } = await suffer(t, [walk, 'success'], { timeout_ms: 10_000, memory_mb: 128 });
  t.deepEqual(body.result.found, [Array(5).fill('undefined').join()]);
  t.true(body.result.seen > 100);
});

test.serial('prototypes that one run poisons are whole in the next, of the same function and of others', async (t) => {
  const fn = await deploy(`exports.handler = (payload) => {
    if (payload.evil) {
      const poison = () => { throw new Error('poisoned') };
      for (const name of Object.getOwnPropertyNames(globalThis)) {
        const prototype = globalThis[name]?.prototype;
        if (prototype) for (const key of Reflect.ownKeys(prototype)) try { Object.defineProperty(prototype, key, { value: poison, configurable: true }) } catch {}
      }
      Object.defineProperty(Object.prototype, 'polluted', { value: 'yes', configurable: true });
      globalThis.kept = 'yes'; JSON.stringify = poison;
    }
    return [{}.polluted ?? null, globalThis.kept ?? null, [3, 1].sort().map((n) => n * 2)];
  }`);
  const evil = await invoke(fn, { evil: true });
  t.true(['error', 'timeout', 'success', 'crashed'].includes(evil.body.status), evil.text);
  const good = await invoke(fn, {});
  t.deepEqual(good.body.result, [null, null, [2, 6]]);
  await suffer(t, [handler('return {}.polluted ?? null'), 'success']);
});

test.serial('a payload named __proto__ is a payload', async (t) => {
  const fn = await deploy('exports.handler = (p) => [Object.keys(p), ({}).polluted ?? null, JSON.stringify(p)]');
  const raw = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":2}}}';
  const { body } = await invoke(fn, JSON.parse(raw));
  t.deepEqual(body.result, [['__proto__', 'constructor'], null, raw]);
});

test.serial('no process and no memory of theirs stays behind', async (t) => {
  await calm();
  t.pass();
});
