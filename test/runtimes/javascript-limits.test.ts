import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { anonymousKib } from '#workers/runtimes/processes.ts';
import type { RunOutcome, RunRequest, Runtime } from '#workers/runtimes/runtime.ts';
import { patienceMs } from '#test/support/time-outs.ts';
import { bwrapPath, commandLine, guests, openRuntime, request, resultOf, run } from './harness.ts';

// One run at a time: what is measured here is the memory of one guest.
const serial = test.serial;
const runtime = await openRuntime();
test.after.always(() => runtime.close());

const survives = async (t: ExecutionContext): Promise<void> => {
  t.is(await resultOf(t, runtime, 'exports.handler = () => "well"'), 'well');
};

const endless: Record<string, string> = {
  'a synchronous loop': 'exports.handler = () => { console.log("before"); for (;;); }',
  'a loop of microtasks': 'exports.handler = async () => { console.log("before"); for (;;) await null; }',
  'a loop of timers':
    'exports.handler = () => { console.log("before"); return new Promise(() => setInterval(() => {}, 1)) }',
  'a promise that never resolves': 'exports.handler = () => { console.log("before"); return new Promise(() => {}) }',
  'a regular expression that explodes':
    'exports.handler = () => { console.log("before"); return /^(a+)+$/.test("a".repeat(40) + "b") }',
  'a loop that outlives the answer':
    'exports.handler = () => { console.log("before"); (async () => { for (;;) await null })(); return 1 }',
  'a loop in the text itself': 'console.log("before"); for (;;);',
  'a toJSON that never returns': 'exports.handler = () => { console.log("before"); return { toJSON() { for (;;); } } }',
  'a thenable that loops': 'exports.handler = () => { console.log("before"); return { then() { for (;;); } } }',
};

for (const [what, code] of Object.entries(endless)) {
  serial(`${what} is stopped at timeout_ms and keeps its log`, async (t) => {
    // A project that used much weighs little: on a busy machine its log would not be written by then.
    const outcome = await run(runtime, code, { timeoutMs: 1000, projectId: what });
    t.is(outcome.status, 'timeout');
    t.is(outcome.error?.message, 'The function did not finish within 1000 ms.');
    t.deepEqual(
      outcome.logs.map(({ message }) => message),
      ['before'],
    );
    t.true(outcome.started);
    await survives(t);
  });
}

serial('nothing of a run happens after its time-out', async (t) => {
  const seen: string[] = [];
  const code = 'exports.handler = () => new Promise(() => setInterval(() => console.log("tick"), 20))';
  const outcome = await runtime.run(request(code, { timeoutMs: 200 }), { onLog: ({ message }) => seen.push(message) });
  const atTheEnd = seen.length;
  await resultOf(t, runtime, 'exports.handler = () => new Promise((resolve) => setTimeout(resolve, 100))');
  t.is(outcome.status, 'timeout');
  t.true(atTheEnd > 0);
  t.is(seen.length, atTheEnd);
});

const bombs: Record<string, string> = {
  objects: 'const all = []; for (;;) all.push(Array.from({ length: 1000 }, Math.random))',
  strings:
    'let s = "x".repeat(1 << 20); const all = []; for (let i = 0; ; i += 1) all.push((s + i).replace(/x/g, "yz"))',
  'typed arrays': 'const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1))',
  'one large buffer': 'return new Uint8Array(2 ** 31).fill(1).length',
  'a map': 'const all = new Map(); for (let i = 0; ; i += 1) all.set(i, { i })',
  JSON: 'let text = "1"; for (;;) { text = `[${text},${text}]`; JSON.parse(text) }',
  'an array that grows': 'const all = []; for (;;) all.push(1.5)',
  timers: 'for (;;) setTimeout(() => {}, 1000)',
};

for (const [what, body] of Object.entries(bombs)) {
  serial(`a bomb of ${what} is stopped before it harms the host`, async (t) => {
    const { outcome, peakMib } = await watched(
      runtime,
      request(`exports.handler = () => { ${body} }`, { memoryMib: 64, timeoutMs: patienceMs, projectId: what }),
    );
    // A JSON text may reach the engine's longest string first, which is an error like any other.
    t.true(['memory_limit', ...(what === 'JSON' ? ['error'] : [])].includes(outcome.status), JSON.stringify(outcome));
    t.is(outcome.result, null);
    t.true(peakMib < 64 + 150, `${peakMib} MiB`);
    await survives(t);
  });
}

/** The memory of the largest guest. */
const heldMib = (): number => Math.max(0, ...guests().map((pid) => anonymousKib(pid))) / 1024;

/** Runs a request and samples the memory of all guests meanwhile, closer than the watchdog does. */
async function watched(target: Runtime, bomb: RunRequest): Promise<{ outcome: RunOutcome; peakMib: number }> {
  const before = heldMib();
  let peakMib = 0;
  const timer = setInterval(() => {
    peakMib = Math.max(peakMib, heldMib() - before);
  }, 5);
  const outcome = await target.run(bomb);
  clearInterval(timer);
  return { outcome, peakMib };
}

serial('a flood of log lines is cut, and harms neither the run nor the host', async (t) => {
  const flood = request('exports.handler = () => { for (;;) console.log("line"); }', {
    memoryMib: 64,
    timeoutMs: 1000,
  });
  const { outcome, peakMib } = await watched(runtime, flood);
  t.is(outcome.status, 'timeout');
  t.true(outcome.logsTruncated);
  t.true(outcome.logs.length > 1000 && outcome.logs.length < 10_000, String(outcome.logs.length));
  t.true(peakMib < 64, `${peakMib} MiB`);
});

serial('a function may use the memory that it was given', async (t) => {
  const code = 'exports.handler = () => new Uint8Array(180 << 20).fill(1).length';
  t.is(await resultOf(t, runtime, code, { memoryMib: 256 }), 180 << 20);
  t.is((await run(runtime, code, { memoryMib: 128 })).status, 'memory_limit');
  const large = 'exports.handler = () => new Uint8Array(700 << 20).fill(1).length';
  t.is(await resultOf(t, runtime, large, { memoryMib: 1024 }), 700 << 20);
});

serial('the memory of one run is free for the next', async (t) => {
  const code =
    'exports.handler = () => { const all = []; for (let i = 0; i < 80; i += 1) all.push(new Uint8Array(1 << 20).fill(1)); return all.length }';
  const again = request(code, { memoryMib: 128 });
  for (let i = 0; i < 10; i += 1) t.is((await runtime.run(again)).status, 'success', `run ${i}`);
});

serial('deep recursion is an error, not a crash', async (t) => {
  const outcome = await run(runtime, 'exports.handler = () => { const f = () => f() + 1; return f() }');
  t.is(outcome.status, 'error');
  t.is(outcome.error?.name, 'RangeError');
});

serial('CPU time is limited apart from wall-clock time', async (t) => {
  const impatient = await openRuntime({ cpuGraceMs: -9700 });
  const outcome = await run(impatient, 'exports.handler = () => { console.log("before"); for (;;); }', {
    timeoutMs: 10_000,
  });
  await impatient.close();
  t.is(outcome.status, 'cpu_limit');
  t.true(outcome.cpuMs > 300 && outcome.durationMs < 9000, JSON.stringify(outcome));
  t.is(outcome.logs.length, 1);
});

serial('aborting stops a run at once and keeps its log', async (t) => {
  const abort = new AbortController();
  const code = 'exports.handler = () => { console.log("before"); for (;;); }';
  const outcome = await runtime.run(request(code), { signal: abort.signal, onLog: () => abort.abort() });
  t.is(outcome.status, 'cancelled');
  t.is(outcome.logs.length, 1);
  t.true(outcome.durationMs < 9000);
  await survives(t);
});

serial('a run whose signal is aborted already never starts', async (t) => {
  const outcome = await runtime.run(request('exports.handler = () => 1'), { signal: AbortSignal.abort() });
  t.is(outcome.status, 'cancelled');
  t.false(outcome.started);
});

serial('a process that is killed from outside is a crash, and the next run has another', async (t) => {
  const fragile = await openRuntime({ spares: 0 });
  t.teardown(() => fragile.close());
  const others = new Set(guests());
  const code = 'exports.handler = () => { console.log("before"); return new Promise(() => {}) }';
  const killGuest = (): void => {
    for (const pid of guests().filter((guest) => !others.has(guest))) process.kill(pid, 'SIGKILL');
  };
  const outcome = await fragile.run(request(code), { onLog: killGuest });
  t.is(outcome.status, 'crashed');
  t.true(outcome.started);
  t.is((await run(fragile, 'exports.handler = () => 1')).status, 'success');
});

serial('closing cancels what runs and leaves no process', async (t) => {
  const closing = await openRuntime();
  const running = Promise.withResolvers<void>();
  const code = 'exports.handler = () => { console.log("before"); for (;;); }';
  const outcome = closing.run(request(code), { onLog: () => running.resolve() });
  await running.promise;
  t.true(guests().length > 0);
  await closing.close();
  t.is((await outcome).status, 'cancelled');
  t.is((await run(closing, 'exports.handler = () => 1')).status, 'cancelled');
  await runtime.close();
  t.deepEqual(guests(), []);
});

serial('a worker that is killed takes its guests with it, and what has left its engine too', async (t) => {
  const worker = fork(join(import.meta.dirname, 'worker-that-dies.ts'), {
    execArgv: ['--no-node-snapshot'],
    env: { PLINTH_BWRAP: bwrapPath ?? '' },
  });
  const [pids] = (await once(worker, 'message')) as [number[]];
  t.true(pids.length > 0);
  worker.kill('SIGKILL');
  await once(worker, 'exit');
  for (const pid of pids) await gone(pid);
  t.pass();
});

/** Resolves when there is no such process, or only what its parent has not yet collected. */
async function gone(pid: number): Promise<void> {
  while (commandLine(pid) !== '') await new Promise((resolve) => setTimeout(resolve, 5));
}
