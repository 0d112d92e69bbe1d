import test from 'ava';
import { OutputTooLarge, RunFailed, runProgram } from '#domain/database/schema-sql/run-program.ts';

const node = process.execPath;
const never = new AbortController().signal;
const run = (script: string, more: { signal?: AbortSignal; maxBytes?: number } = {}): Promise<Buffer> =>
  runProgram({ program: node, args: ['-e', script], env: { KNOWN: 'yes' }, signal: never, maxBytes: 1000, ...more });

test('what a program writes is answered, and its environment is what it is given alone', async (t) => {
  const names = await run('process.stdout.write(Object.keys(process.env).join())');
  t.is(names.toString(), 'KNOWN');
});

test('a program that fails says why', async (t) => {
  const error = await t.throwsAsync(run('console.error("the reason"); process.exit(3)'), { instanceOf: RunFailed });
  t.regex(error.message, /code 3: the reason/);
});

test('a program that is not there fails', async (t) => {
  const gone = runProgram({ program: '/nowhere/pg_dump', args: [], env: {}, signal: never, maxBytes: 1 });
  await t.throwsAsync(gone, { instanceOf: RunFailed });
});

test('a program that writes too much is ended', async (t) => {
  await t.throwsAsync(run('setInterval(() => process.stdout.write("x".repeat(600)), 1)'), {
    instanceOf: OutputTooLarge,
  });
});

test('a program for which nobody waits any more is ended, even if it does not want to', async (t) => {
  const gone = new AbortController();
  const running = run('process.on("SIGTERM", () => undefined); setInterval(() => undefined, 1000)', {
    signal: gone.signal,
  });
  gone.abort(new Error('gone'));
  await t.throwsAsync(running, { message: 'gone' });
});

test('what is not wanted any more does not begin', async (t) => {
  await t.throwsAsync(run('', { signal: AbortSignal.abort(new Error('before')) }), { message: 'before' });
});
