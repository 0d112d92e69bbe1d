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

/** A process that never says that it is ready. */
const hanging = { file: process.execPath, args: ['-e', 'setInterval(() => {}, 1e9)'], env: {} };

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

test('a run gets a runner of its project that becomes free before another has started', async (t) => {
  const started: Runner[] = [];
  const pool = open({
    start: (slot) => {
      started.push(started.length === 0 ? start(slot) : new Runner(hanging, tools));
      return started.at(-1) as Runner;
    },
  });
  const a = await pool.acquire('a');
  const second = pool.acquire('a');
  t.is(started.length, 2);
  pool.release(a);
  t.is(await second, a);
  await pool.close();
});

test('a project whose runners die does not keep others from getting further ones', async (t) => {
  const pool = open({ maxRunners: 5, maxStarting: 1 });
  await pool.acquire('b');
  const died = await pool.acquire('a');
  died.kill();
  pool.release(died);
  const order: string[] = [];
  await Promise.all(
    ['c', 'a', 'b'].map(async (projectId) => {
      await pool.acquire(projectId);
      order.push(projectId);
    }),
  );
  t.deepEqual(order, ['c', 'b', 'a']);
  await pool.close();
});

test('few runners start at a time, first those of projects that have had none', async (t) => {
  let starting = 0;
  const pool = open({
    maxRunners: 5,
    maxStarting: 1,
    start: (slot) => {
      t.is(starting, 0);
      starting += 1;
      const runner = start(slot);
      const end = (): void => void (starting -= 1);
      runner.ready.then(end, end);
      return runner;
    },
  });
  await pool.acquire('a');
  const order: string[] = [];
  await Promise.all(
    ['a', 'a', 'b', 'c'].map(async (projectId) => {
      await pool.acquire(projectId);
      order.push(projectId);
    }),
  );
  t.deepEqual(order, ['a', 'b', 'c', 'a']);
  await pool.close();
});

test('runs that nobody waits for leave half of the starts to those that somebody waits for', async (t) => {
  let started = 0;
  const pool = open({
    maxRunners: 5,
    maxStarting: 2,
    start: () => {
      started += 1;
      return new Runner(hanging, tools);
    },
  });
  const waiting = [pool.acquire('a'), pool.acquire('b')];
  t.is(started, 1);
  waiting.push(pool.acquire('c', { isAwaited: true }));
  t.is(started, 2);
  waiting.push(pool.acquire('d', { isAwaited: true }));
  t.is(started, 2);
  const all = Promise.allSettled(waiting);
  await pool.close();
  t.true((await all).every(({ status }) => status === 'rejected'));
});

test('a free runner is for the run of its project that somebody waits for', async (t) => {
  const pool = open({ maxRunners: 1 });
  const a = await pool.acquire('a');
  const order: string[] = [];
  const wait = async (name: string, isAwaited: boolean): Promise<void> => {
    const runner = await pool.acquire('a', { isAwaited });
    order.push(name);
    pool.release(runner);
  };
  const both = [wait('in the background', false), wait('awaited', true)];
  pool.release(a);
  await Promise.all(both);
  t.deepEqual(order, ['awaited', 'in the background']);
  await pool.close();
});

test('a runner that does not become ready is ended, and those who wait for it or its place are told', async (t) => {
  const pool = open({ maxStarting: 1, startWithinMs: 1, start: () => new Runner(hanging, tools) });
  const [a, b] = [pool.acquire('a'), pool.acquire('b')];
  await t.throwsAsync(a, { message: /did not start/ });
  await t.throwsAsync(b, { message: /did not start/ });
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
  const waiting = pool.acquire('b', { signal: abort.signal });
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
