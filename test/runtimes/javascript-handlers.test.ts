import test from 'ava';
import { openRuntime, request, resultOf, run } from './harness.ts';

const runtime = await openRuntime();
test.after.always(() => runtime.close());

const forms: Record<string, string> = {
  'exports.handler': 'exports.handler = (payload) => payload.n + 1',
  'module.exports = function': 'module.exports = async (payload) => payload.n + 1',
  'module.exports.handler': 'module.exports = { handler: (payload) => payload.n + 1 }',
  'a default export': 'exports.__esModule = true; exports.default = (payload) => payload.n + 1',
  'an object as default export': 'exports.default = { handler: (payload) => payload.n + 1 }',
};

for (const [form, code] of Object.entries(forms)) {
  test(`a handler is found as ${form}`, async (t) => {
    t.is(await resultOf(t, runtime, code, { payload: '{"n":1}' }), 2);
  });
}

test('entry_point names the export', async (t) => {
  const code = 'exports.handler = () => 1; exports.other = () => 2';
  t.is(await resultOf(t, runtime, code, { entryPoint: 'other' }), 2);
  const missing = await run(runtime, code, { entryPoint: 'absent' });
  t.is(missing.status, 'error');
  t.is(missing.error?.message, 'The code exports no function named "absent"');
});

test('the handler gets the payload exactly, NUL and lone surrogates included', async (t) => {
  const text = '{"nul":"\\u0000","escaped":"\\ud800","raw":"\udfff","proto":{"__proto__":{"x":1}}}';
  const code = `exports.handler = (p) => [p.nul, p.escaped, p.raw].map((s) => s.charCodeAt(0)).concat(p.raw.length, Object.hasOwn(p.proto, '__proto__'))`;
  t.deepEqual(await resultOf(t, runtime, code, { payload: text }), [0, 0xd800, 0xdfff, 1, true]);
});

test('the result is the JSON text that the language makes of it', async (t) => {
  const outcome = await run(
    runtime,
    `exports.handler = () => ({ nul: '\\0', lone: '\\ud800', no: undefined, f() {}, d: new Date(0) })`,
  );
  t.is(outcome.result, '{"nul":"\\u0000","lone":"\\ud800","d":"1970-01-01T00:00:00.000Z"}');
});

test('no result, a function and a symbol become null', async (t) => {
  for (const value of ['undefined', '() => 1', 'Symbol("x")']) {
    t.is(await resultOf(t, runtime, `exports.handler = () => (${value})`), null);
  }
});

test('sdk and process.env hold the env vars and nothing else, and cannot be written', async (t) => {
  const code = `exports.handler = (p, sdk) => {
    'use strict';
    const thrown = [];
    for (const write of [() => { sdk.env.A = 'x' }, () => { process.env.B = 'x' }, () => { sdk.projectId = 'x' }, () => { process.env = {} }])
      try { write(); thrown.push(null) } catch (error) { thrown.push(error.name) }
    return { env: sdk.env, same: process.env === sdk.env, keys: Object.keys(sdk), projectId: sdk.projectId, thrown };
  }`;
  t.deepEqual(await resultOf(t, runtime, code, { env: { A: '1', __proto__x: '2' }, projectId: 'project-b' }), {
    env: { A: '1', __proto__x: '2' },
    same: true,
    keys: [
      'db',
      'jobs',
      'events',
      'attempt',
      'step',
      'asCaller',
      'log',
      'flags',
      'storage',
      'env',
      'projectId',
      'caller',
      'user',
      'waitUntil',
      'request',
    ],
    projectId: 'project-b',
    thrown: ['TypeError', 'TypeError', 'TypeError', 'TypeError'],
  });
});

test('an error keeps its name, message and the line that threw it', async (t) => {
  const code =
    "\n\nexports.handler = () => {\n  deeper();\n};\nfunction deeper() {\n  throw new RangeError('too far');\n}";
  const outcome = await run(runtime, code);
  t.is(outcome.status, 'error');
  t.is(outcome.error?.name, 'RangeError');
  t.is(outcome.error?.message, 'too far');
  t.deepEqual(outcome.error?.stack.split('\n'), [
    'RangeError: too far',
    '    at deeper (function.js:7:9)',
    '    at exports.handler (function.js:4:3)',
  ]);
});

test('columns of the first line are those of the source', async (t) => {
  const outcome = await run(runtime, "exports.handler = () => { throw new Error('x') }");
  t.regex(outcome.error?.stack ?? '', /function\.js:1:33/);
});

test('an error in a promise keeps its stack, and nothing of ours is in it', async (t) => {
  const code = 'exports.handler = async () => {\n  await null;\n  throw new Error("late");\n}';
  const { error } = await run(runtime, code);
  t.regex(error?.stack ?? '', /function\.js:3:9/);
  t.notRegex(error?.stack ?? '', /plinth|guest|isolated/);
});

test('anything may be thrown', async (t) => {
  const thrown: [string, string, string][] = [
    ['null', 'Error', 'null'],
    ['"text"', 'Error', 'text'],
    ['Symbol("s")', 'Error', 'Symbol(s)'],
    ['{ code: 7 }', 'Error', '{ code: 7 }'],
    ['{ get message() { throw 1 }, name: "N" }', 'N', '[unreadable]'],
    ['new Proxy({}, { get() { throw 1 }, ownKeys() { throw 1 } })', 'Error', '[unreadable]'],
  ];
  for (const [value, name, message] of thrown) {
    const { status, error } = await run(runtime, `exports.handler = () => { throw ${value} }`);
    t.is(status, 'error', value);
    t.is(error?.name, name, value);
    t.is(error?.message, message, value);
  }
});

test('name, message and stack of an error are bounded', async (t) => {
  const code = `exports.handler = () => { const e = new Error('m'.repeat(1e6)); e.name = 'n'.repeat(1e6); e.stack = 's'.repeat(1e6); throw e }`;
  const { error } = await run(runtime, code);
  t.true(JSON.stringify(error).length < 17 * 1024);
});

test('a result that JSON cannot hold is an error that says so', async (t) => {
  const circular = await run(runtime, 'exports.handler = () => { const o = {}; o.o = o; return o }');
  t.is(circular.status, 'error');
  t.regex(circular.error?.message ?? '', /^The result cannot be turned into JSON: Converting circular structure/);
  const bigint = await run(runtime, 'exports.handler = () => 10n');
  t.regex(bigint.error?.message ?? '', /^The result cannot be turned into JSON: .*BigInt/);
  const getter = await run(runtime, 'exports.handler = () => ({ get a() { throw new Error("no") } })');
  t.regex(getter.error?.message ?? '', /^The result cannot be turned into JSON: no/);
});

test('a result of 1 MiB passes, one byte more is result_too_large', async (t) => {
  const text = { code: "exports.handler = (length) => 'x'.repeat(length)", quotes: 2 };
  const fits = await run(runtime, text.code, { payload: String(1024 * 1024 - text.quotes) });
  t.is(fits.status, 'success');
  const tooLarge = await run(runtime, text.code, { payload: String(1024 * 1024 - text.quotes + 1) });
  t.is(tooLarge.status, 'result_too_large');
  t.is(tooLarge.result, null);
  t.is(tooLarge.error?.message, 'The result is larger than 1 MiB of JSON.');
  const inBytes = await run(runtime, "exports.handler = () => 'é'.repeat(600_000)");
  t.is(inBytes.status, 'result_too_large');
});

test('code that does not parse or fails while it loads is an error', async (t) => {
  t.is((await run(runtime, 'exports.handler = (')).error?.name, 'SyntaxError');
  t.is((await run(runtime, 'throw new TypeError("at load")')).error?.message, 'at load');
  const broken = request('}); throw new Error("broke out"); (function () {');
  for (let i = 0; i < 2; i += 1) t.is((await runtime.run(broken)).error?.message, 'broke out');
  t.is(await resultOf(t, runtime, 'exports.handler = () => 1'), 1);
});

test('require and import() of what is not bundled fail with a name', async (t) => {
  const code = `exports.handler = async () => { try { require('lodash') } catch (error) { return [error.code, error.message] } }`;
  const [name, message] = (await resultOf(t, runtime, code)) as string[];
  t.is(name, 'MODULE_NOT_FOUND');
  t.regex(message ?? '', /lodash/);
  t.is((await run(runtime, "exports.handler = () => import('lodash')")).status, 'error');
});

test('console methods become log lines with levels, in order, also live', async (t) => {
  const code = `exports.handler = async () => {
    console.log('a %s %d', 'b', 3, { x: [1, 'y'] }); console.info(new Map([['k', 1]])); console.debug('d');
    console.warn(undefined, null); console.error(new Error('e')); console.log();
    const o = { n: 1n }; o.self = o; console.log(o);
  }`;
  const live: string[] = [];
  const outcome = await runtime.run(request(code), { onLog: ({ message }) => live.push(message) });
  t.deepEqual(
    outcome.logs.map(({ level, message }) => [level, message.split('\n')[0]]),
    [
      ['info', 'a b 3 { x: [ 1, "y" ] }'],
      ['info', 'Map(1) { "k" => 1 }'],
      ['debug', 'd'],
      ['warn', 'undefined null'],
      ['error', 'Error: e'],
      ['info', ''],
      ['info', '{ n: 1n, self: [Circular] }'],
    ],
  );
  t.deepEqual(
    live,
    outcome.logs.map(({ message }) => message),
  );
  t.true(outcome.logs.every(({ ts }) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(ts)));
  t.false(outcome.logsTruncated);
});

test('a line is bounded, and so is the log of a run', async (t) => {
  const line = await run(runtime, "exports.handler = () => console.log('x'.repeat(1e6))");
  t.regex(line.logs[0]?.message ?? '', /^x{16384}… \[983616 characters cut\]$/);
  const flood = await run(
    runtime,
    "exports.handler = () => { for (let i = 0; i < 20_000; i += 1) console.log('y'.repeat(100)); return 'end' }",
  );
  t.is(flood.result, '"end"');
  t.true(flood.logsTruncated);
  const bytes = flood.logs.reduce((sum, { message }) => sum + message.length, 0);
  t.true(bytes > 150_000 && bytes <= 256 * 1024, String(bytes));
});

test('timers run in order and are gone with the run', async (t) => {
  const code = `exports.handler = async () => {
    const seen = [];
    const cancelled = setTimeout(() => seen.push('never'), 1);
    clearTimeout(cancelled);
    queueMicrotask(() => seen.push('microtask'));
    setImmediate((x) => seen.push(x), 'immediate');
    await new Promise((resolve) => {
      const interval = setInterval(() => {
        seen.push('tick');
        if (seen.filter((s) => s === 'tick').length < 3) return;
        clearInterval(interval);
        setTimeout(resolve, 10).unref();
      }, 2);
    });
    setTimeout(() => console.log('late'), 1);
    return seen;
  }`;
  const outcome = await run(runtime, code);
  t.deepEqual(JSON.parse(outcome.result ?? ''), ['microtask', 'immediate', 'tick', 'tick', 'tick']);
  t.deepEqual(outcome.logs, []);
});

test('what a timer throws, and a rejection that nobody handles, end the run as an error', async (t) => {
  const wait = 'await new Promise(() => {})';
  const timer = await run(
    runtime,
    `exports.handler = async () => { setTimeout(() => { throw new Error('in a timer') }, 1); ${wait} }`,
  );
  t.is(timer.error?.message, 'in a timer');
  const lost = await run(runtime, `exports.handler = async () => { Promise.reject(new TypeError('lost')); ${wait} }`);
  t.is(lost.status, 'error');
  t.is(lost.error?.message, 'lost');
  const microtask = await run(
    runtime,
    `exports.handler = async () => { queueMicrotask(() => { throw new Error('in a microtask') }); ${wait} }`,
  );
  t.is(microtask.error?.message, 'in a microtask');
});

test('a rejection after the answer leaves the answer and is logged', async (t) => {
  const outcome = await run(runtime, "exports.handler = () => { Promise.reject(new Error('afterwards')); return 1 }");
  t.is(outcome.result, '1');
  t.regex(outcome.logs[0]?.message ?? '', /^Unhandled rejection after the end of the run: Error: afterwards/);
});

test('structuredClone copies what the language has', async (t) => {
  const code = `exports.handler = () => {
    const value = { d: new Date(0), m: new Map([[1, new Set(['x'])]]), r: /a/gi, b: new Uint8Array([1, 2]), e: new RangeError('r'), h: [1, , 3] };
    value.self = value;
    const copy = structuredClone(value);
    let refused; try { structuredClone({ f() {} }) } catch (error) { refused = error.name }
    return [copy !== value, copy.self === copy, copy.d.getTime(), [...copy.m.get(1)], String(copy.r), [...copy.b], copy.b.buffer !== value.b.buffer, copy.e instanceof RangeError, copy.e.message, 1 in copy.h, refused];
  }`;
  t.deepEqual(await resultOf(t, runtime, code), [
    true,
    true,
    0,
    ['x'],
    '/a/gi',
    [1, 2],
    true,
    true,
    'r',
    false,
    'DataCloneError',
  ]);
});

test('there is no shared memory and no WebAssembly', async (t) => {
  const code = `exports.handler = () => ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'require', 'module', 'ivm'].map((name) => typeof globalThis[name])`;
  t.deepEqual(await resultOf(t, runtime, code), Array(6).fill('undefined'));
});
