import test from 'ava';
import { openRuntime, request, run } from './harness.ts';
import { hostileHandler, pythonTest, usePython } from './python-harness.ts';

const python = usePython();
const services = { call: () => Promise.resolve('[]'), close: () => Promise.resolve() };
const expected = ['TypeError', 'db.query: the call is too long. Send it in parts.', 0];

test('a database call that no frame can carry is an error of the function, which goes on', async (t) => {
  const runtime = await openRuntime();
  t.teardown(() => runtime.close());
  const code = `exports.handler = async (_, { db }) => {
    const found = await db.query('"'.repeat(9 << 20)).catch(({ name, message }) => [name, message]);
    return [...found, (await db.query('select 1')).length];
  };`;
  const outcome = await runtime.run(request(code, { memoryMib: 512 }), { services });
  t.is(outcome.status, 'success', JSON.stringify(outcome.error));
  t.deepEqual(JSON.parse(outcome.result ?? ''), expected);
});

pythonTest(
  'a database call of Python that no frame can carry is an error of the function, which goes on',
  async (t) => {
    const code = hostileHandler(
      'try: sdk.db.query(chr(34) * (9 << 20))',
      'except Exception as error: found = [type(error).__name__, str(error)]',
      'return found + [len(sdk.db.query("select 1"))]',
    );
    const outcome = await python().run(request(code, { memoryMib: 512 }), { services });
    t.is(outcome.status, 'success', JSON.stringify(outcome.error));
    t.deepEqual(JSON.parse(outcome.result ?? ''), expected);
  },
);

test('the cause of an error is shown with it, and the cause of that, whatever getters do', async (t) => {
  const runtime = await openRuntime();
  t.teardown(() => runtime.close());
  const outcome = await run(
    runtime,
    `exports.handler = () => {
      const inner = new RangeError('the innermost', { cause: 'a text' });
      const middle = new TypeError('in the middle', { cause: inner });
      throw new Error('outside', { cause: middle });
    };`,
  );
  const stack = outcome.error?.stack ?? '';
  t.regex(stack, /^Error: outside\n/);
  t.regex(stack, /\n\[cause\]: TypeError: in the middle\n {4}at .*function\.js/);
  t.regex(stack, /\n\[cause\]: RangeError: the innermost\n/);
  t.regex(stack, /\n\[cause\]: Error: a text$/);
  t.false(/plinth:runtime|isolated-vm/.test(stack));
  const circular = 'const e = new Error("round"); e.cause = e; throw e;';
  t.is((await run(runtime, `exports.handler = () => { ${circular} };`)).error?.message, 'round');
  const angry = 'throw Object.defineProperty(new Error("x"), "cause", { get() { throw 1; } });';
  t.is((await run(runtime, `exports.handler = () => { ${angry} };`)).error?.message, 'x');
});
