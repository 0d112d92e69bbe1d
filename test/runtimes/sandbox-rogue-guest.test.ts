import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import test, { type ExecutionContext } from 'ava';
import { longTestMs } from '#test/support/time-outs.ts';
import { Allowance, readWithin } from '#workers/runtimes/allowance.ts';
import { RunnerPool } from '#workers/runtimes/pool.ts';
import { Runner } from '#workers/runtimes/runner.ts';
import type { RunOptions, RunOutcome } from '#workers/runtimes/runtime.ts';
import { CpuShares } from '#workers/runtimes/cpu-shares.ts';
import { Watchdog } from '#workers/runtimes/watchdog.ts';
import { openRuntime, request } from './harness.ts';

/**
 * Guests that have been taken over whole: they say to the worker what they like. The worker's own memory and time, and
 * what is recorded of a run, must not be theirs.
 */

const tools = { watchdog: new Watchdog(), cpuShares: new CpuShares(), cpuGraceMs: 60_000 };

/** @param onRun what it does when it is asked to run; `send(message)`, `raw(bytes)`, `socket` and `run` are at hand */
const rogue = (onRun: string, always = ''): Runner => {
  const script = `
    const { Socket } = require('node:net');
    const socket = new Socket({ fd: 3, readable: true, writable: true });
    const frame = (text) => { const b = Buffer.from(text); const h = Buffer.alloc(4); h.writeUInt32BE(b.length); return Buffer.concat([h, b]) };
    const raw = (bytes) => socket.write(bytes);
    const send = (message) => raw(frame(JSON.stringify(message)));
    const result = (run, text, more) => send({ type: 'result', run, status: 'success', result: text, error: null, cpuMs: 0, memoryMib: 0, ...more });
    let run = 0;
    socket.on('error', () => process.exit());
    socket.on('close', () => process.exit());
    socket.once('data', () => { run += 1; ${onRun} });
    send({ type: 'ready' }); ${always}`;
  return new Runner({ file: process.execPath, args: ['-e', script], env: {} }, tools);
};

/** Runs it once, to its end; it is a run like any other for those who wait for it. */
async function outcomeOf(runner: Runner, options: RunOptions = {}, timeoutMs = 3000): Promise<RunOutcome> {
  await runner.ready;
  const outcome = await runner.run(request('', { timeoutMs, memoryMib: 64 }), options);
  runner.kill();
  await runner.gone;
  return outcome;
}

/** Answers, and then works on for itself. */
const restless = (): Runner =>
  rogue(`result(run, '1'); setImmediate(function spin() { for (let i = 0; i < 1e7; i += 1); setImmediate(spin) })`);

const endsAs = async (t: ExecutionContext, runner: Runner, status: RunOutcome['status']): Promise<void> => {
  const outcome = await outcomeOf(runner);
  t.is(outcome.status, status);
  t.true(outcome.started);
};

test('a frame that announces gigabytes ends the run', (t) =>
  endsAs(t, rogue('raw(Buffer.from([255, 255, 255, 255, 1]))'), 'crashed'));

test('a result that is no JSON ends the run, and is passed on to nobody', (t) =>
  endsAs(t, rogue(`result(run, '1,"result":{"forged":true}')`), 'crashed'));

test('a result for another run is nobody’s', (t) => endsAs(t, rogue(`result(run + 1, '"forged"')`), 'timeout'));

test('figures and times that it gives of itself stay within what can be kept', async (t) => {
  const outcome = await outcomeOf(
    rogue(`for (const time of [1e15, -1e300, 8.64e15, 0]) send({ type: 'logs', run, lines: [[time, 'info', 'x']], truncated: false });
           result(run, '1', { cpuMs: 1e300, memoryMib: 1e300 })`),
  );
  t.is(outcome.status, 'success');
  t.true(outcome.cpuMs <= 1e9 && outcome.memoryPeakMib <= 1e9);
  const today = new Date().getTime();
  for (const { ts } of outcome.logs) t.true(Math.abs(Date.parse(ts) - today) < 2 * 60 * 60_000, ts);
});

test('one that says twice that it is ready is held to what it held the first time', async (t) => {
  const runner = rogue(`globalThis.hoard = Buffer.alloc(60 << 20, 1); send({ type: 'ready' }); result(run, '1')`);
  await runner.ready;
  t.is((await runner.run(request('', { memoryMib: 128 }))).status, 'success');
  t.true(runner.heldMib() > 55, String(runner.heldMib()));
  runner.kill();
  await runner.gone;
});

const linuxTest = process.platform === 'linux' ? test : test.skip;

linuxTest('when the machine runs out of memory guests go first', async (t) => {
  const score = `require('node:fs').readFileSync('/proc/self/oom_score_adj', 'latin1').trim()`;
  const { result } = await outcomeOf(rogue(`result(run, ${score})`));
  t.is(result, '1000');
});

test('what is said beyond the allowance is read later, and whole', async (t) => {
  const allowance = new Allowance();
  t.is(allowance.spend(1000, 10), 0);
  t.true(allowance.spend(1000, 100_000) > 0);
  t.true(new Allowance().spend(1 << 30, 1) > 0);
  const stream = new PassThrough();
  let read = 0;
  readWithin(stream, new Allowance(), (chunk) => {
    read += chunk.length;
    return 20_000;
  });
  const paused = once(stream, 'pause');
  for (let n = 0; n < 3; n += 1) stream.write('x'.repeat(100));
  await paused;
  t.is(read, 100);
  stream.end();
  await once(stream, 'end');
  t.is(read, 300);
});

test('answers that it asks for and does not read are not kept without bound', async (t) => {
  let requested = 0;
  const call = (): Promise<string> => {
    requested += 1;
    return Promise.resolve(JSON.stringify('x'.repeat(1 << 20)));
  };
  const services = { call, close: () => Promise.resolve() };
  const outcome = await outcomeOf(
    rogue(`socket.pause(); let call = 0;
           const more = () => { for (let n = 0; n < 10; n += 1) send({ type: 'call', run, call: call += 1, op: 'x', args: '' }); setTimeout(more, 1) };
           more()`),
    { services },
    30_000,
  );
  t.is(outcome.status, 'memory_limit');
  t.true(requested < 200, String(requested));
});

test('of its calls no more than 64 are open at a time, however many it makes', async (t) => {
  let open = 0;
  let max = 0;
  const call = async (): Promise<string> => {
    open += 1;
    max = Math.max(max, open);
    await new Promise((resolve) => setTimeout(resolve, 20));
    open -= 1;
    return 'null';
  };
  const outcome = await outcomeOf(
    rogue(`socket.resume(); const many = Buffer.concat(Array.from({ length: 500 }, (_, call) => frame(JSON.stringify({ type: 'call', run, call, op: 'x', args: 'y'.repeat(100) }))));
           const more = () => { while (socket.write(many)); socket.once('drain', more) }; more()`),
    { services: { call, close: () => Promise.resolve() } },
  );
  t.is(outcome.status, 'timeout');
  t.is(max, 64);
});

test('a flood of log lines and of words on standard error keeps neither others waiting nor the log without bound', async (t) => {
  const flood = rogue(`
    const lines = frame(JSON.stringify({ type: 'logs', run, lines: Array.from({ length: 50 }, () => [Date.now(), 'info', 'y'.repeat(100)]), truncated: false }));
    const more = () => { while (socket.write(lines)); socket.once('drain', more) }; more();
    const shout = () => { while (process.stderr.write('z'.repeat(60000))); process.stderr.once('drain', shout) }; shout()`);
  const outcome = outcomeOf(flood, {}, 6000);
  const runtime = await openRuntime({ spares: 0 });
  t.teardown(() => runtime.close());
  let others = 0;
  for (let n = 0; n < 10; n += 1) {
    const { result } = await runtime.run(request(`exports.handler = () => ${n}`));
    if (result === String(n)) others += 1;
  }
  t.is(others, 10);
  const { status, logs, logsTruncated } = await outcome;
  t.is(status, 'timeout');
  t.true(logsTruncated);
  t.true(logs.reduce((sum, { message }) => sum + message.length, 0) <= 256 * 1024);
  t.true(flood.lastWords.length <= 4096);
});

test('one that works on after its answer, when nobody has asked it to, is ended', async (t) => {
  t.timeout(longTestMs);
  const pool = new RunnerPool({ maxRunners: 1, spares: 0, maxRuns: 100, start: restless });
  const runner = await pool.acquire('a');
  t.is((await runner.run(request(''))).status, 'success');
  pool.release(runner);
  await runner.gone;
  t.true(runner.dead);
  await pool.close();
});

test('one that waits for work in silence is kept', async (t) => {
  const runner = rogue(`result(run, '1')`);
  await runner.ready;
  t.is((await runner.run(request(''))).status, 'success');
  for (let poll = 0; poll < 3; poll += 1) t.false(runner.isRestless());
  runner.kill();
  await runner.gone;
});
