import test, { type ExecutionContext } from 'ava';
import { type RunServices, maxOpenCalls } from '#workers/runtimes/runtime.ts';
import { openRuntime, run } from './harness.ts';

const runtime = await openRuntime();
test.after.always(() => runtime.close());

type Args = Record<string, unknown>;

const resultOf = async (t: ExecutionContext, body: string, answer: (op: string, args: Args) => Promise<unknown>) => {
  const services: RunServices = {
    call: async (op, args) => JSON.stringify(await answer(op, JSON.parse(args) as Args)),
    close: () => Promise.resolve(),
  };
  const outcome = await run(runtime, `exports.handler = async (_, { db }) => { ${body} }`, {}, { services });
  t.is(outcome.status, 'success', JSON.stringify(outcome.error));
  return JSON.parse(outcome.result ?? 'null') as unknown;
};

test('bytes of every kind arrive as Postgres writes them', async (t) => {
  const body = `const bytes = [0, 255, 16];
    return db.query('x', [Buffer.from(bytes), new Uint8Array(bytes), new Uint8Array(bytes).buffer, { a: Buffer.from(bytes) }, Buffer.from([9, 0, 255, 16]).subarray(1)])`;
  const hex = String.raw`\x00ff10`;
  t.deepEqual(await resultOf(t, body, async (_op, { params }) => params), [hex, hex, hex, { a: hex }, hex]);
});

test('any number of statements may be asked for at once: they are answered in their order', async (t) => {
  const seen: unknown[] = [];
  const body = `return Promise.all(Array.from({ length: 300 }, (_, n) => db.query(String(n))))`;
  const numbers = Array.from({ length: 300 }, (_, index) => String(index));
  const result = await resultOf(t, body, async (_op, { sql }) => {
    seen.push(sql);
    await new Promise(setImmediate);
    return sql;
  });
  t.deepEqual(result, numbers);
  t.deepEqual(seen, numbers);
});

test('a statement of a transaction goes past those that wait for its locks', async (t) => {
  const commit = Promise.withResolvers<void>();
  let held = 0;
  const body = `return db.transaction(async (tx) => {
      waiting = Array.from({ length: 100 }, () => db.query('blocked'));
      return tx.query('mine');
    }).then(async (mine) => [mine, (await Promise.all(waiting)).length]); var waiting`;
  const result = await resultOf(t, body, async (op, { sql }) => {
    if (op === 'db.begin') return 1;
    if (op === 'db.commit') commit.resolve();
    if (sql === 'blocked') {
      held += 1;
      await commit.promise;
    }
    return sql ?? null;
  });
  t.deepEqual(result, ['mine', 100]);
  t.true(held > maxOpenCalls);
});
