import test from 'ava';
import { guestCommand } from '#workers/runtimes/javascript/guest-command.ts';
import { NoRunner, type PoolOptions, RunnerPool } from '#workers/runtimes/pool.ts';
import { Runner } from '#workers/runtimes/runner.ts';
import { CpuShares } from '#workers/runtimes/cpu-shares.ts';
import { Watchdog } from '#workers/runtimes/watchdog.ts';
import { guests, request, sandbox } from './harness.ts';

const tools = { watchdog: new Watchdog(), cpuShares: new CpuShares(), cpuGraceMs: 2000 };
const start = (slot: number): Runner => new Runner(sandbox.command(guestCommand(), slot), tools);
const open = (options: Partial<PoolOptions> = {}): RunnerPool =>
  new RunnerPool({ maxRunners: 2, spares: 0, maxRuns: 100, start, ...options });

test('a runner serves the project that had it first and no other', async (t) => {
  const pool = open();
  const a = await pool.acquire('a');
  pool.release(a);
  const b = await pool.acquire('b');
  t.not(b, a);
  pool.release(b);
  t.is(await pool.acquire('a'), a);
  t.is(await pool.acquire('b'), b);
  await pool.close();
});

test('a busy runner is not shared, not even within its project', async (t) => {
  const pool = open();
  t.not(await pool.acquire('a'), await pool.acquire('a'));
  await pool.close();
});

test('the runner that has been idle longest makes room for another project', async (t) => {
  const pool = open();
  const [a, b] = [await pool.acquire('a'), await pool.acquire('b')];
  pool.release(b);
  pool.release(a);
  const c = await pool.acquire('c');
  t.true(b.dead);
  t.false(a.dead);
  t.false([a, b].includes(c));
  await pool.close();
});

test('who finds all runners busy waits, in order, until one is given back', async (t) => {
  const pool = open({ maxRunners: 1 });
  const a = await pool.acquire('a');
  const order: string[] = [];
  const b = pool.acquire('b').then((runner) => {
    order.push('b');
    pool.release(runner);
    return runner;
  });
  const again = pool.acquire('a').then(() => order.push('a'));
  pool.release(a);
  t.not(await b, a);
  await again;
  t.deepEqual(order, ['b', 'a']);
  await pool.close();
});

test('whoever stops waiting gets nothing and takes nothing', async (t) => {
  const pool = open({ maxRunners: 1 });
  const a = await pool.acquire('a');
  const abort = new AbortController();
  const waiting = pool.acquire('b', abort.signal);
  abort.abort();
  pool.release(a);
  await t.throwsAsync(waiting, { instanceOf: NoRunner });
  t.is(await pool.acquire('a'), a);
  await pool.close();
});

test('a spare is given to the first project that needs one, and replaced', async (t) => {
  const started: Runner[] = [];
  const pool = open({
    spares: 1,
    start: (slot) => {
      const runner = start(slot);
      started.push(runner);
      return runner;
    },
  });
  await pool.warm();
  const [spare] = started;
  t.truthy(spare);
  t.is<Runner | undefined, Runner | undefined>(await pool.acquire('a'), spare);
  const b = await pool.acquire('b');
  t.true(started.includes(b));
  await pool.close();
  t.true(started.every((runner) => runner.dead));
});

test('a runner is retired after its runs', async (t) => {
  const pool = open({ maxRuns: 2 });
  const runner = await pool.acquire('a');
  await runner.run(request('exports.handler = () => 1'));
  pool.release(runner);
  t.is(await pool.acquire('a'), runner);
  await runner.run(request('exports.handler = () => 1'));
  pool.release(runner);
  t.true(runner.dead);
  t.not(await pool.acquire('a'), runner);
  await pool.close();
});

test('a dead runner is never handed out again', async (t) => {
  const pool = open();
  const runner = await pool.acquire('a');
  pool.release(runner);
  runner.kill();
  t.not(await pool.acquire('a'), runner);
  await pool.close();
});

test('a runner that cannot start says so, and the next one may', async (t) => {
  let works = false;
  const broken = { file: process.execPath, args: ['-e', 'process.exit(1)'], env: {} };
  const pool = open({ start: (slot) => (works ? start(slot) : new Runner(broken, tools)) });
  await t.throwsAsync(pool.acquire('a'), { message: /did not start/ });
  const missing = open({ start: () => new Runner({ file: '/nonexistent', args: [], env: {} }, tools) });
  await t.throwsAsync(missing.acquire('a'), { message: /did not start/ });
  works = true;
  await t.notThrowsAsync(pool.acquire('a'));
  await Promise.all([pool.close(), missing.close()]);
});

test('an answer that is no frame of ours ends the runner', async (t) => {
  const rogue = `
    const { Socket } = require('node:net');
    const socket = new Socket({ fd: 3, readable: true, writable: true });
    const send = (text) => { const b = Buffer.from(text); const h = Buffer.alloc(4); h.writeUInt32BE(b.length); socket.write(Buffer.concat([h, b])); };
    socket.on('data', () => send(process.argv[1]));
    send('{"type":"ready"}');`;
  for (const answer of [
    'not json',
    '{"type":"result"}',
    '{"type":"logs","run":1,"lines":[[0,"loud","x"]],"truncated":false}',
  ]) {
    const runner = new Runner({ file: process.execPath, args: ['-e', rogue, answer], env: {} }, tools);
    await runner.ready;
    t.is((await runner.run(request('exports.handler = () => 1'))).status, 'crashed', answer);
    t.true(runner.dead);
    await runner.gone;
  }
});

test.after.always('no process is left', (t) => {
  t.deepEqual(guests(), []);
});
