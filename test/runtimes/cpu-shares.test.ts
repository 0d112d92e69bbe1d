import { existsSync, readFileSync, readdirSync } from 'node:fs';
import test from 'ava';
import { baseNice, busyNice, niceOfEach, setNice } from '#lib/cpu-priority.ts';
import { until } from '#test/support/until.ts';
import { CpuShares } from '#workers/runtimes/cpu-shares.ts';
import { guestCommand } from '#workers/runtimes/javascript/guest-command.ts';
import { processTree } from '#workers/runtimes/processes.ts';
import { Runner } from '#workers/runtimes/runner.ts';
import { Watchdog } from '#workers/runtimes/watchdog.ts';
import { commandLine, openRuntime, request, resultOf, sandbox } from './harness.ts';
import { openPython, pythonGuests, pythonTest } from './python-harness.ts';

const given = () => {
  const values = new Map<number, number>();
  const clock = { now: 0 };
  const shares = new CpuShares(
    (pid, nice) => {
      values.set(pid, nice);
      return true;
    },
    () => clock.now,
  );
  return { values, shares, clock };
};

/** The scheduler's weight of a nice value, relative to 0. */
const weightOf = (nice: number): number => 1.25 ** -nice;

test('a project with many runs weighs about as much as a project with one', (t) => {
  for (const processes of [1, 2, 3, 5, 10, 20]) {
    const together = processes * weightOf(niceOfEach(processes));
    t.true(Math.abs(together / weightOf(baseNice) - 1) < 0.13, `${processes}`);
  }
  t.is(niceOfEach(1000), 19);
});

test('the runs of one project share one weight; another project keeps its own', (t) => {
  const { values, shares } = given();
  const runs = [1, 2, 3, 4, 5].map((pid) => ({ pid, share: shares.enter('busy', pid) }));
  const quiet = shares.enter('quiet', 6);
  for (const { pid, share } of runs) share.follow([pid], 0);
  quiet.follow([6], 0);
  t.deepEqual([...values.values()], [...Array.from({ length: 5 }, () => baseNice + 7), baseNice]);
});

test('a process that stays returns to the base when its run is over, and the others get what it had', (t) => {
  const { values, shares } = given();
  const [first, second] = [shares.enter('busy', 1), shares.enter('busy', 2)];
  first.follow([1], 0);
  second.follow([2], 0);
  first.leave();
  t.is(values.get(1), baseNice);
  t.is(values.get(2), niceOfEach(2));
  second.follow([2], 0);
  t.is(values.get(2), baseNice);
});

test('a project that has used much processor time weighs less, from the start of its next run on', (t) => {
  const { values, shares, clock } = given();
  const [first, quiet] = [shares.enter('busy', 1), shares.enter('quiet', 2)];
  first.follow([1], 1000);
  quiet.follow([2], 100);
  t.is(values.get(1), baseNice);
  clock.now = 100;
  first.follow([1], 1010);
  t.is(values.get(1), baseNice, 'of 1010 ms 10 are credited by now');
  first.follow([1], 1011);
  t.is(values.get(1), busyNice);
  quiet.follow([2], 100);
  t.is(values.get(2), baseNice);
  first.leave();
  shares.enter('busy', 3);
  t.is(values.get(3), busyNice);
});

test('a project that was busy weighs as before after 20 s at the most', (t) => {
  const { values, shares, clock } = given();
  const run = shares.enter('busy', 1);
  run.follow([1], 1_000_000);
  t.is(values.get(1), busyNice);
  run.leave();
  clock.now = 19_999;
  shares.enter('busy', 2).leave();
  t.is(values.get(2), baseNice, 'its process returned to the base');
  clock.now = 20_000;
  const after = shares.enter('busy', 3);
  t.false(values.has(3));
  after.follow([3], 0);
  t.is(values.get(3), baseNice);
});

test('starts of runners are use of the project that has its first run on them, and weigh less for one that used much', (t) => {
  const { values, shares } = given();
  shares.weighStart(undefined, [1, 2]);
  shares.weighStart('busy', [3]);
  shares.noteStart('busy', 1000);
  shares.weighStart('busy', [4]);
  shares.noteStart('busy', 1);
  shares.weighStart('busy', [5]);
  shares.weighStart('quiet', [6]);
  t.deepEqual([...values.values()], [baseNice, baseNice, baseNice, baseNice, busyNice, baseNice]);
  shares.enter('busy', 7);
  t.is(values.get(7), busyNice);
});

const niceOf = (pid: number): number[] =>
  readdirSync(`/proc/${pid}/task`).map((thread) => {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
  });

const javascriptGuests = (): number[] =>
  processTree(process.pid).filter((pid) => commandLine(pid).includes('guest/main.cjs'));

const onLinux = process.platform === 'linux' ? test.serial : test.serial.skip;

onLinux('every thread of a runner has a lower priority than the worker, before any code runs in it', async (t) => {
  const runtime = await openRuntime();
  t.teardown(() => runtime.close());
  const guests = javascriptGuests();
  t.true(guests.length > 0);
  for (const guest of guests) for (const nice of niceOf(guest)) t.is(nice, baseNice);
});

/** Where the scheduler weighs sessions first. */
const sessionNiceOf = (pid: number): number | null => {
  const path = `/proc/${pid}/autogroup`;
  return existsSync(path) ? Number(/nice (-?\d+)/.exec(readFileSync(path, 'latin1'))?.[1]) : null;
};

onLinux('a runner has the lower priority while it starts, in the session that the sandbox gives it, too', async (t) => {
  const tools = { watchdog: new Watchdog(), cpuShares: new CpuShares(), cpuGraceMs: 2000 };
  const program = { ...guestCommand(), args: ['-e', 'setInterval(() => {}, 1e9)', 'never ready'] };
  const runner = new Runner(sandbox.command(program, 0), tools);
  runner.ready.catch(() => undefined);
  t.teardown(() => runner.kill());
  const node = sandbox.level === 'strict' ? '/app/node' : process.execPath;
  const guest = (): number | undefined =>
    processTree(process.pid).find(
      (pid) => commandLine(pid).startsWith(node) && commandLine(pid).includes('never ready'),
    );
  await until(() => {
    const pid = guest();
    if (pid === undefined) return false;
    const ofSession = sessionNiceOf(pid);
    return niceOf(pid).every((nice) => nice === baseNice) && (ofSession === null || ofSession === baseNice);
  });
  runner.kill();
  await t.notThrowsAsync(runner.gone);
});

onLinux('runs of one project that go on at once have a lower priority than a single one', async (t) => {
  const lowered: number[] = [];
  const shares = new CpuShares((pid, nice) => {
    lowered.push(nice);
    return setNice(pid, nice);
  });
  const runtime = await openRuntime({ cpuShares: shares });
  t.teardown(() => runtime.close());
  const abort = new AbortController();
  const forever = request('exports.handler = () => { for (;;); };');
  const runs = [0, 1, 2].map(() => runtime.run(forever, { signal: abort.signal }));
  await until(() => lowered.some((nice) => nice >= niceOfEach(3)));
  t.true(javascriptGuests().some((guest) => niceOf(guest).every((nice) => nice >= niceOfEach(3))));
  abort.abort();
  await Promise.all(runs);
});

pythonTest('the processes of a run have a lower priority than the worker and cannot leave it', async (t) => {
  const runtime = await openPython({ spares: 0 });
  t.teardown(() => runtime.close());
  const code = [
    'import os',
    'def handler(payload, sdk):',
    '    before = open("/proc/self/autogroup").read() if os.path.exists("/proc/self/autogroup") else ""',
    '    os.setsid()',
    '    after = open("/proc/self/autogroup").read() if before else ""',
    '    try:',
    '        os.nice(-1)',
    '    except PermissionError:',
    '        pass',
    '    return [os.getpriority(os.PRIO_PROCESS, 0), before.split()[:1] == after.split()[:1]]',
  ].join('\n');
  const [nice, isSameSession] = (await resultOf(t, runtime, code)) as [number, boolean];
  t.is(nice, baseNice);
  t.true(isSameSession || sandbox.level !== 'strict');
  for (const guest of pythonGuests()) for (const value of niceOf(guest)) t.true(value >= baseNice);
});
