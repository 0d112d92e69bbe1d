import type { ExecutionContext } from 'ava';
import { CallFault, type RunServices } from '#workers/runtimes/runtime.ts';
import { run } from './harness.ts';
import { pythonTest as test, usePython } from './python-harness.ts';

const runtime = usePython();

/** Every line is one of a module, at its own indentation. */
const lines = (...text: string[]): string => text.join('\n');
const handler = (...body: string[]): string => lines('def handler(payload, sdk):', ...body.map((line) => `  ${line}`));

interface Requested {
  readonly op: string;
  readonly args: Record<string, unknown>;
}

/** Answers calls from a list, and remembers them. */
const answering = (...answers: (string | CallFault)[]): { services: RunServices; requested: Requested[] } => {
  const requested: Requested[] = [];
  const call = (op: string, args: string): Promise<string> => {
    requested.push({ op, args: JSON.parse(args) as Record<string, unknown> });
    const answer = answers[requested.length - 1] ?? 'null';
    return answer instanceof CallFault ? Promise.reject(answer) : Promise.resolve(answer);
  };
  return { services: { call, close: () => Promise.resolve() }, requested };
};

const withCalls = async (t: ExecutionContext, code: string, ...answers: (string | CallFault)[]) => {
  const { services, requested } = answering(...answers);
  const outcome = await run(runtime(), code, {}, { services });
  t.is(outcome.status, 'success', JSON.stringify(outcome.error));
  return { value: JSON.parse(outcome.result ?? 'null') as unknown, requested };
};

/** Answers each query with its own text. */
const echoing: RunServices = {
  call: (_op, args) => Promise.resolve(JSON.stringify((JSON.parse(args) as { sql: string }).sql)),
  close: () => Promise.resolve(),
};

test('each operation of the database is one call with its arguments', async (t) => {
  const code = handler(
    'db = sdk.db',
    'return [db.query("select %s", (1,)), db.query_one("select 2"), db.insert("a", {"b": b"\\x01"}), db.select("a"),',
    '  db.select("a", "b = %s", [2]), db.update("a", {"b": 1}, "c = %s", (3,)), db.remove("a", "true")]',
  );
  const { value, requested } = await withCalls(t, code, '[{"x":1}]', 'null', '{"b":1}', '[]', '[]', '3', '4');
  t.deepEqual(value, [[{ x: 1 }], null, { b: 1 }, [], [], 3, 4]);
  const style = 'percent';
  t.deepEqual(requested, [
    { op: 'db.query', args: { sql: 'select %s', params: [1], style, tx: null } },
    { op: 'db.queryOne', args: { sql: 'select 2', style, tx: null } },
    { op: 'db.insert', args: { table: 'a', data: { b: '\\x01' }, tx: null } },
    { op: 'db.select', args: { table: 'a', style, tx: null } },
    { op: 'db.select', args: { table: 'a', params: [2], style, where: 'b = %s', tx: null } },
    { op: 'db.update', args: { table: 'a', data: { b: 1 }, where: 'c = %s', params: [3], style, tx: null } },
    { op: 'db.remove', args: { table: 'a', where: 'true', style, tx: null } },
  ]);
});

test('in async handlers the same calls may be awaited', async (t) => {
  const code = lines(
    'import asyncio',
    'async def handler(payload, sdk):',
    '  rows, one = await asyncio.gather(sdk.db.query("a"), sdk.db.query("b"))',
    '  return [rows, one, await sdk.db.query_one("c"), await sdk.db.remove("t", "true"), sdk.db.query("d")]',
  );
  const { value } = await withCalls(t, code, '[1]', '[2]', 'null', '5', '[3]');
  t.deepEqual(value, [[1], [2], null, 5, [3]]);
});

test('in async handlers calls may be tasks, and no row is null without being awaited', async (t) => {
  const code = lines(
    'import asyncio',
    'async def handler(payload, sdk):',
    '  task = asyncio.create_task(sdk.db.query("a"))',
    '  none = asyncio.create_task(sdk.db.query_one("b"))',
    '  return [await task, await none, {"c": sdk.db.query_one("c")}]',
  );
  const { value } = await withCalls(t, code, '[{"x":1}]', 'null', 'null');
  t.deepEqual(value, [[{ x: 1 }], null, { c: null }]);
});

test('what the database refuses is an exception with its fields', async (t) => {
  const code = handler(
    'try:',
    '  sdk.db.query("x")',
    'except sdk.db.DatabaseError as e:',
    '  return [type(e).__name__, str(e), e.code, e.detail, e.hint]',
  );
  const fault = new CallFault('DatabaseError', 'no such table', { code: '42P01', hint: 'create it' });
  t.deepEqual((await withCalls(t, code, fault)).value, ['DatabaseError', 'no such table', '42P01', null, 'create it']);
});

test('a fault that nobody catches ends the run with its name and the line of the call', async (t) => {
  const { services } = answering(new CallFault('DatabaseError', 'no such table', { code: '42P01' }));
  const { status, error } = await run(runtime(), handler('sdk.db.query("x")'), {}, { services });
  t.is(status, 'error');
  t.is(error?.name, 'DatabaseError');
  t.regex(error?.stack ?? '', /line 2, in handler\n[^]*DatabaseError: no such table\n$/);
});

const transactions: Record<string, { body: string[]; ops: string[] }> = {
  'a with block commits': { body: ['with sdk.db.transaction() as tx: tx.query("x")'], ops: ['db.query', 'db.commit'] },
  'a with block that raises rolls back': {
    body: ['try:', '  with sdk.db.transaction() as tx: raise KeyError(1)', 'except KeyError: pass'],
    ops: ['db.rollback'],
  },
  'a function commits': { body: ['sdk.db.transaction(lambda tx: tx.query("x"))'], ops: ['db.query', 'db.commit'] },
  'an async function commits': {
    body: ['import asyncio', 'async def work(tx):', '  await tx.query("x")', 'asyncio.run(sdk.db.transaction(work))'],
    ops: ['db.query', 'db.commit'],
  },
  'an async function that raises rolls back': {
    body: [
      'import asyncio',
      'async def work(tx): raise KeyError(1)',
      'try: asyncio.run(sdk.db.transaction(work))',
      'except KeyError: pass',
    ],
    ops: ['db.rollback'],
  },
  'an async with block commits': {
    body: [
      'import asyncio',
      'async def work():',
      '  async with sdk.db.transaction() as tx: await tx.query("x")',
      'asyncio.run(work())',
    ],
    ops: ['db.query', 'db.commit'],
  },
};
for (const [what, { body, ops }] of Object.entries(transactions)) {
  test(`transactions: ${what}`, async (t) => {
    const { requested } = await withCalls(t, handler(...body), '"tx-1"', '[]');
    t.deepEqual(
      requested.map(({ op }) => op),
      ['db.begin', ...ops],
    );
    for (const { args } of requested.slice(1)) t.is(args['tx'], 'tx-1');
  });
}

test('a parameter that is no list is told before anything is asked', async (t) => {
  const { services, requested } = answering();
  const { error } = await run(runtime(), handler('sdk.db.query("select %s", "abc")'), {}, { services });
  t.is(error?.name, 'TypeError');
  t.is(error?.message, "params must be a tuple or a list, for instance ('abc',)");
  t.deepEqual(requested, []);
});

test('threads may call, one after the other', async (t) => {
  const code = lines(
    'from concurrent.futures import ThreadPoolExecutor',
    handler(
      'with ThreadPoolExecutor(20) as pool:',
      '  return list(pool.map(lambda n: sdk.db.query(str(n)), range(50)))',
    ),
  );
  const outcome = await run(runtime(), code, {}, { services: echoing });
  t.deepEqual(
    JSON.parse(outcome.result ?? ''),
    Array.from({ length: 50 }, (_, index) => String(index)),
  );
});

test('the caller, and the claims of a user who calls', async (t) => {
  const code = handler('return [sdk.caller, sdk.user]');
  const caller = { kind: 'user', key_id: null, user: { sub: 'ada' } };
  const known = await run(runtime(), code, { caller: JSON.stringify(caller) });
  t.deepEqual(JSON.parse(known.result ?? 'null'), [caller, caller.user]);
  t.deepEqual(JSON.parse((await run(runtime(), code)).result ?? ''), [null, null]);
});
