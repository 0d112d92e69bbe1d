import type { ExecutionContext } from 'ava';
import type { RunRequest } from '#workers/runtimes/runtime.ts';
import { request, resultOf, run } from './harness.ts';
import { openPython, pythonTest as test, usePython } from './python-harness.ts';

const runtime = usePython();

/** Every line is one of a module, at its own indentation. */
const lines = (...text: string[]): string => text.join('\n');
const handler = (...body: string[]): string => lines('def handler(payload, sdk):', ...body.map((line) => `  ${line}`));

const result = (t: ExecutionContext, code: string, changes: Partial<RunRequest> = {}): Promise<unknown> =>
  resultOf(t, runtime(), code, changes);

test('a handler gets the payload as it was sent and answers with what it returns', async (t) => {
  const payload = '{"text":"a\\u0000\\ud800é","big":12345678901234567890,"list":[null,true,1.5]}';
  const outcome = await run(runtime(), handler('return payload'), { payload });
  t.is(outcome.result, '{"text":"a\\u0000\\ud800\\u00e9","big":12345678901234567890,"list":[null,true,1.5]}');
});

test('entry_point names the handler, which may be async', async (t) => {
  const code = lines(
    'import asyncio',
    'async def main(payload, sdk):',
    '  await asyncio.sleep(0)',
    '  return payload + 1',
  );
  t.is(await result(t, code, { entryPoint: 'main', payload: '1' }), 2);
  const outcome = await run(runtime(), code, { entryPoint: 'other' });
  t.is(outcome.status, 'error');
  t.is(outcome.error?.message, "There is no function named 'other' in the code.");
});

test('dates, decimals, UUIDs, bytes, sets and dataclasses have a place in results', async (t) => {
  const code = lines(
    'import datetime, decimal, uuid, dataclasses',
    '@dataclasses.dataclass',
    'class Point:',
    '  x: int',
    handler(
      'return [datetime.datetime(2026, 1, 2, 3, 4, 5), datetime.date(2026, 1, 2), decimal.Decimal("1.10"),',
      '  uuid.UUID(int=1), b"\\x00\\xff", {1}, (1, 2), Point(3)]',
    ),
  );
  t.deepEqual(await result(t, code), [
    '2026-01-02T03:04:05',
    '2026-01-02',
    '1.10',
    '00000000-0000-0000-0000-000000000001',
    'AP8=',
    [1],
    [1, 2],
    { x: 3 },
  ]);
});

const unusable: Record<string, string> = {
  'not a number': 'return float("nan")',
  infinity: 'return [float("inf")]',
  'a circle': 'a = []; a.append(a); return a',
  'depth without end': 'a = []\n  for _ in range(100000): a = [a]\n  return a',
  'a function': 'return handler',
  'a key that is no text': 'return {(1, 2): 3}',
};
for (const [what, body] of Object.entries(unusable)) {
  test(`a result that JSON cannot hold is an error: ${what}`, async (t) => {
    const outcome = await run(runtime(), handler(body));
    t.is(outcome.status, 'error');
    t.is(outcome.result, null);
  });
}

test('a result of more than 1 MiB is too large, one of 1 MiB is not', async (t) => {
  t.is((await run(runtime(), handler('return "x" * 1048574'))).status, 'success');
  t.is((await run(runtime(), handler('return "é" * 524287'))).status, 'success');
  t.is((await run(runtime(), handler('return "x" * 1048575'))).status, 'result_too_large');
});

test('an exception is told with the lines of the function only', async (t) => {
  const code = lines('import json', 'def inner():', '  return json.loads("{")', handler('return inner()'));
  const { status, error } = await run(runtime(), code);
  t.is(status, 'error');
  t.is(error?.name, 'JSONDecodeError');
  t.regex(error?.stack ?? '', /File "function\.py", line 5, in handler\n/);
  t.regex(error?.stack ?? '', /File "function\.py", line 3, in inner\n {4}return json\.loads/);
  t.notRegex(error?.stack ?? '', /\/app\/|\/usr\//);
});

test('causes of an exception are told too, and hide nothing of ours', async (t) => {
  const code = handler('try:', '  1 / 0', 'except ZeroDivisionError as e:', '  raise ValueError("outer") from e');
  const { error } = await run(runtime(), code);
  t.regex(error?.stack ?? '', /line 3, in handler[^]*direct cause[^]*line 5, in handler/);
  t.notRegex(error?.stack ?? '', /\/app\//);
});

test('a text that is no Python is an error with its line', async (t) => {
  const { status, error } = await run(runtime(), 'def handler(payload, sdk):\n  return (');
  t.is(status, 'error');
  t.is(error?.name, 'SyntaxError');
  t.regex(error?.stack ?? '', /File "function\.py", line 2/);
});

test('errors that resist being shown are told all the same', async (t) => {
  const code = lines('class Odd(Exception):', '  def __str__(self): raise self', handler('raise Odd()'));
  const { status, error } = await run(runtime(), code);
  t.is(status, 'error');
  t.is(error?.name, 'Odd');
});

test('sys.exit is an error, not an answer', async (t) => {
  const { status, error } = await run(runtime(), lines('import sys', handler('sys.exit(0)')));
  t.is(status, 'error');
  t.is(error?.name, 'SystemExit');
});

test('print, logging, warnings and standard error are log lines with their levels, in their order', async (t) => {
  const code = lines(
    'import logging, sys, warnings',
    'log = logging.getLogger("mine")',
    handler(
      'print("one", 1)',
      'log.debug("unseen")',
      'log.info("two %s", 2)',
      'log.warning("three")',
      'print("four", file=sys.stderr)',
      'log.setLevel(logging.DEBUG)',
      'log.debug("five")',
      'warnings.warn("six")',
      'log.error("seven")',
      'print("eight", end="")',
    ),
  );
  const { logs } = await run(runtime(), code);
  const reported = logs.map(({ level, message }) => [level, message.split('\n')[0]]);
  t.deepEqual(reported, [
    ['info', 'one 1'],
    ['info', 'two 2'],
    ['warn', 'three'],
    ['error', 'four'],
    ['debug', 'five'],
    ['warn', 'function.py:11: UserWarning: six'],
    ['error', 'seven'],
    ['info', 'eight'],
  ]);
});

test('logging.basicConfig does what it does everywhere', async (t) => {
  const code = lines(
    'import logging',
    'logging.basicConfig(level=logging.DEBUG, format="<%(name)s> %(message)s")',
    handler('logging.getLogger("a.b").debug("seen")'),
  );
  const { logs } = await run(runtime(), code);
  t.deepEqual(
    logs.map(({ level, message }) => [level, message]),
    [['debug', '<a.b> seen']],
  );
});

test('a traceback in the log is one line of it', async (t) => {
  const code = lines(
    'import logging',
    handler('try:', '  1 / 0', 'except ZeroDivisionError:', '  logging.exception("oh")'),
  );
  const { logs } = await run(runtime(), code);
  t.is(logs.length, 1);
  t.regex(logs[0]?.message ?? '', /^oh\nTraceback[^]*ZeroDivisionError: division by zero$/);
});

test('what other programs and forked processes write is in the log', async (t) => {
  const code = lines(
    'import os, subprocess, multiprocessing',
    'def work(n, end):',
    '  print("worker", n)',
    '  end.send(n * 2)',
    handler(
      'subprocess.run(["sh", "-c", "echo out; echo err >&2"])',
      'os.write(1, b"raw\\n")',
      'results = []',
      'for n in (1, 2):',
      '  here, there = multiprocessing.Pipe()',
      '  multiprocessing.get_context("fork").Process(target=work, args=(n, there)).start()',
      '  results.append(here.recv())',
      'return results',
    ),
  );
  const outcome = await run(runtime(), code);
  t.is(outcome.result, '[2,4]', JSON.stringify(outcome));
  const reported = outcome.logs.map(({ level, message }) => `${level} ${message}`).sort();
  t.deepEqual(reported, ['error err', 'info out', 'info raw', 'info worker 1', 'info worker 2']);
});

test('log lines are seen while the function runs', async (t) => {
  const abort = new AbortController();
  const code = handler('print("before")', 'while True: pass');
  const outcome = await runtime().run(request(code), { signal: abort.signal, onLog: () => abort.abort() });
  t.is(outcome.status, 'cancelled');
  t.is(outcome.logs[0]?.message, 'before');
});

test('the environment is what the function was given, and what programs need', async (t) => {
  const code = lines(
    'import os',
    handler('return [dict(os.environ), sdk.env.KEY, sdk.env["KEY"], sdk.env.get("NONE")]'),
  );
  const [env, ...rest] = (await result(t, code, { env: { KEY: 'value' } })) as [Record<string, string>, ...unknown[]];
  const proxies = ['http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY'];
  const names = new Set(['KEY', 'PATH', 'HOME', 'TMPDIR', 'LANG', 'SSL_CERT_FILE', ...proxies]);
  t.deepEqual(
    Object.keys(env).filter((name) => !names.has(name)),
    [],
  );
  t.is(env['KEY'], 'value');
  t.deepEqual(rest, ['value', 'value', null]);
});

test('the project is named in both spellings', async (t) => {
  t.deepEqual(await result(t, handler('return [sdk.project_id, sdk.projectId]')), ['project-a', 'project-a']);
});

test('modules of one run are not those of the next, nor is anything else that it changed', async (t) => {
  const changes = lines(
    'import json, os, sys, builtins',
    'count = 0',
    handler(
      'global count',
      'count += 1',
      'json.extra = 1; builtins.extra = 1; sys.path.clear(); sys.modules.clear(); os.environ["X"] = "y"',
      'open(os.path.join(os.environ["HOME"], "left"), "w").close(); os.mkdir("/tmp/left"); return count',
    ),
  );
  const again = request(changes, { functionId: 'changes' });
  for (let i = 0; i < 3; i += 1) {
    const outcome = await runtime().run(again);
    t.is(outcome.result, '1', JSON.stringify(outcome));
  }
  const poll = lines(
    'import builtins, os',
    handler('return [os.listdir("/tmp") == [os.path.basename(os.getcwd())], os.listdir(), hasattr(builtins, "extra")]'),
  );
  t.deepEqual(await result(t, poll), [true, [], false]);
});

test('compiled code is kept by version, and another version has its own', async (t) => {
  for (const [version, value] of [
    [1, 'one'],
    [2, 'two'],
    [1, 'one'],
    [2, 'two'],
  ] as const) {
    t.is(await result(t, handler(`return "${value}"`), { functionId: 'versions', version }), value);
  }
});

test('standard modules are those of Python, none is one of ours', async (t) => {
  const code = handler(
    'missing = []',
    'for name in ["frames", "channel", "link", "fence", "network", "logs", "values", "sdk", "child", "warm", "run"]:',
    '  try: __import__(name)',
    '  except ModuleNotFoundError: missing.append(name)',
    'import __main__, ssl, sqlite3, zoneinfo',
    'return [len(missing), __name__, __main__.handler is handler]',
  );
  t.deepEqual(await result(t, code), [11, 'function', true]);
});

test('a project has its runner for itself', async (t) => {
  const own = await openPython({ spares: 0 });
  const code = lines('import os', handler('return os.getppid()'));
  const first = await run(own, code, { projectId: 'one' });
  const other = await run(own, lines('import os', handler('open("/tmp/x", "w"); return 1')), { projectId: 'two' });
  t.is(first.status, 'success');
  t.is(other.status, 'success');
  await own.close();
});
