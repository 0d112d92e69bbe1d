import test, { type ExecutionContext } from 'ava';
import { openRuntime, run } from './harness.ts';

const runtime = await openRuntime();
test.after.always(() => runtime.close());

async function logged(t: ExecutionContext, body: string): Promise<string[]> {
  const { status, error, logs } = await run(runtime, `exports.handler = async () => { ${body} }`);
  t.is(status, 'success', JSON.stringify(error));
  return logs.map(({ level, message }) => `${level} ${message}`);
}

test('each method writes at its level', async (t) => {
  const lines = await logged(t, `for (const name of ['debug', 'log', 'info', 'warn', 'error']) console[name](name)`);
  t.deepEqual(lines, ['debug debug', 'info log', 'info info', 'warn warn', 'error error']);
});

test('groups are indented, however many lines an entry has', async (t) => {
  const lines = await logged(
    t,
    `console.group('outer'); console.warn('a\\nb'); console.groupCollapsed(); console.log('deep'); console.groupEnd(); console.groupEnd(); console.groupEnd(); console.log('out')`,
  );
  t.deepEqual(lines, ['info outer', 'warn   a\n  b', 'info     deep', 'info out']);
});

test('a table has a row for each entry', async (t) => {
  const [list, chosen, none] = await logged(
    t,
    `console.table([{ a: 1, b: 'x' }, { a: 22 }, 7]); console.table({ k: { a: 1, b: 2 } }, ['b']); console.table('text')`,
  );
  t.deepEqual(list?.slice('info '.length).split('\n'), [
    '┌─────────┬────┬─────┬────────┐',
    '│ (index) │ a  │ b   │ Values │',
    '├─────────┼────┼─────┼────────┤',
    "│ 0       │ 1  │ 'x' │        │",
    '│ 1       │ 22 │     │        │',
    '│ 2       │    │     │ 7      │',
    '└─────────┴────┴─────┴────────┘',
  ]);
  t.true(chosen?.includes('│ k       │ 2 │'));
  t.is(none, 'info text');
});

test('counts, assertions and traces', async (t) => {
  const lines = await logged(
    t,
    `console.count(); console.count('x'); console.count(); console.countReset(); console.count();
     console.assert(true, 'no'); console.assert(false, 'n is %d', 5); console.assert(0); console.trace('here')`,
  );
  t.deepEqual(lines.slice(0, 6), [
    'info default: 1',
    'info x: 1',
    'info default: 2',
    'info default: 1',
    'error Assertion failed: n is 5',
    'error Assertion failed',
  ]);
  t.regex(lines[6] ?? '', /^debug Trace: here\n/);
});

test('timers of the console tell whole milliseconds, and only those that were started', async (t) => {
  const lines = await logged(
    t,
    `console.time('a'); console.timeLog('a', 'half', { way: 1 }); console.timeEnd('a'); console.timeEnd('a'); console.timeLog('b')`,
  );
  t.is(lines.length, 2);
  t.regex(lines[0] ?? '', /^info a: \d+ms half \{ way: 1 \}$/);
  t.regex(lines[1] ?? '', /^info a: \d+ms$/);
});

test('what the web’s classes hold is in the log', async (t) => {
  const lines = await logged(
    t,
    `console.log(new URL('http://a/?b=1')); console.log({ h: new Headers({ X: '1' }), p: new URLSearchParams('a=1') }); console.log(new Response('x', { status: 404 }), new Blob(['abc'], { type: 't/x' }), new DOMException('m', 'AbortError').name)`,
  );
  t.deepEqual(lines, [
    'info http://a/?b=1',
    'info { h: Headers { x: "1" }, p: URLSearchParams { a: "1" } }',
    'info Response { status: 404, statusText: "", url: "", bodyUsed: false } Blob { size: 3, type: "t/x" } AbortError',
  ]);
});
