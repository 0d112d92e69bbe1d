import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { PortTaken, type StartError } from '#scripts/errors.ts';
import { freePortAnywhere } from '#scripts/infra/ports.ts';
import { claimLock, recordedProcesses } from '#scripts/pid-lock.ts';
import { type Patience, type ProcessSpec, SupervisedProcess, readyMessage } from '#scripts/processes.ts';
import { Stack } from '#scripts/stack.ts';
import { isAlive, readText, temporaryFolder, until } from './support.ts';

const quick: Partial<Patience> = { firstPauseMs: 1, maxPauseMs: 5, maxDeaths: 3, steadyMs: 60_000 };
const serving = `
  process.on('disconnect', () => process.exit());
  setInterval(() => undefined, 1000);
  process.send({ type: 'ready' });
`;

interface Observed {
  readonly process: SupervisedProcess;
  readonly deaths: string[];
  readonly fatal: Promise<StartError>;
  readonly folder: string;
}

/** Supervises a Node that runs `code`. */
const supervise = (t: ExecutionContext, code: string, change: Partial<ProcessSpec> = {}): Observed => {
  const folder = temporaryFolder(t);
  const script = path.join(folder, 'program.mjs');
  writeFileSync(script, code);
  const deaths: string[] = [];
  const fatal = Promise.withResolvers<StartError>();
  const spec: ProcessSpec = {
    name: 'dummy',
    stage: 'app',
    command: process.execPath,
    args: [script],
    env: process.env,
    cwd: folder,
    logFile: path.join(folder, 'dummy.log'),
    stopSignal: 'SIGTERM',
    stopWithinMs: 60_000,
    ready: readyMessage,
    ...change,
  };
  const hooks = { onChange: () => undefined, onDeath: (line: string) => deaths.push(line), onFatal: fatal.resolve };
  const supervised = new SupervisedProcess(spec, hooks, quick);
  t.teardown(async () => {
    supervised.kill();
    await supervised.stop();
  });
  return { process: supervised, deaths, fatal: fatal.promise, folder };
};

const runningPid = (observed: Observed): Promise<number> => until(() => observed.process.record?.pid);

test('a process that is killed is started again', async (t) => {
  const observed = supervise(t, serving);
  await observed.process.served;
  const first = await runningPid(observed);
  process.kill(first, 'SIGKILL');
  const second = await until(() => {
    const pid = observed.process.record?.pid;
    return pid !== undefined && pid !== first && pid;
  });
  t.true(isAlive(second));
  t.deepEqual(observed.deaths, ['dummy was ended by SIGKILL; starting it again']);
});

test('a process that keeps ending is given up with its reason and the path of its log', async (t) => {
  const observed = supervise(t, `console.error('the moon is full'); process.exit(3);`);
  const { message, exitCode } = await observed.fatal;
  t.is(exitCode, 1);
  t.regex(message, /^dummy keeps ending \(3 times in a row, the last one ended with code 3\)/);
  t.regex(message, /the moon is full/);
  t.true(message.includes(path.join(observed.folder, 'dummy.log')));
});

test('a program that does not exist is given up with its reason', async (t) => {
  const observed = supervise(t, '', { command: '/nowhere/at-all' });
  const { message } = await observed.fatal;
  t.regex(message, /could not be started \(.*ENOENT/);
});

test('a process that refuses its settings is not started again', async (t) => {
  const observed = supervise(t, 'process.exit(78);');
  t.is((await observed.fatal).exitCode, 78);
  t.deepEqual(observed.deaths, []);
});

test('a full disk is named as such', async (t) => {
  const observed = supervise(t, `console.error('could not write: No space left on device'); process.exit(1);`);
  t.regex((await observed.fatal).message, /is full/);
});

test('stopping waits for a process that finishes its work, and starts no other', async (t) => {
  const code = `process.on('SIGTERM', () => { console.log('finished'); process.exit(0); }); ${serving}`;
  const observed = supervise(t, code);
  await observed.process.served;
  const pid = await runningPid(observed);
  await observed.process.stop();
  t.false(isAlive(pid));
  t.is(observed.process.record, null);
  t.regex(readText(path.join(observed.folder, 'dummy.log')), /finished/);
});

test('a process that does not heed the signal is killed when its time is over', async (t) => {
  const observed = supervise(t, `process.on('SIGTERM', () => undefined); ${serving}`, { stopWithinMs: 50 });
  await observed.process.served;
  const pid = await runningPid(observed);
  await observed.process.stop();
  t.false(isAlive(pid));
});

test('what a process that died had started goes with it', async (t) => {
  const code = `
    import { spawn } from 'node:child_process';
    import { writeFileSync } from 'node:fs';
    const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'], { stdio: 'ignore' });
    writeFileSync('child.pid', String(child.pid));
    ${serving}
  `;
  const observed = supervise(t, code);
  await observed.process.served;
  const grandchild = Number(readText(path.join(observed.folder, 'child.pid')));
  process.kill(await runningPid(observed), 'SIGKILL');
  await until(() => !isAlive(grandchild));
  t.pass();
});

test('stopping waits until whoever ran a program has cleared up after it', async (t) => {
  const folder = temporaryFolder(t);
  const lockFile = path.join(folder, 'platform.pid');
  const claim = claimLock(lockFile);
  if (!claim.taken) return t.fail('the folder is in use');
  const narrator = { print: () => undefined, during: <T>(_what: string, work: () => Promise<T>) => work() };
  const stack = new Stack({ lock: claim.lock, lockFile, graceMs: 200, narrator });
  // Its child outlives it for a moment and keeps its output open: its end is known later than its death.
  const program = stack.run('sh', ['-c', 'setsid sh -c "echo begun >begun; sleep 0.5"; sleep 600'], { cwd: folder });
  let cleared = false;
  const clearing = program.catch(() => {
    cleared = true;
  });
  await until(() => existsSync(path.join(folder, 'begun')));
  await stack.stop();
  t.true(cleared);
  await clearing;
});

test('a process whose port another program took is not started again there, and the others go on', async (t) => {
  const folder = temporaryFolder(t);
  const lockFile = path.join(folder, 'platform.pid');
  const claim = claimLock(lockFile);
  if (!claim.taken) return t.fail('the folder is in use');
  const narrator = { print: () => undefined, during: <T>(_what: string, work: () => Promise<T>) => work() };
  const stack = new Stack({ lock: claim.lock, lockFile, graceMs: 200, narrator, patience: quick });
  t.teardown(() => stack.stop());
  const taken = createServer().listen(0, '127.0.0.1');
  t.teardown(() => taken.close());
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const listener = (onPort: number): ProcessSpec => ({
    name: 'listener',
    stage: 'app',
    command: process.execPath,
    args: ['-e', `require('net').createServer().listen(${onPort}, '127.0.0.1', () => process.send({ type: 'ready' }))`],
    env: process.env,
    cwd: folder,
    logFile: path.join(folder, 'listener.log'),
    port: onPort,
    stopSignal: 'SIGTERM',
    stopWithinMs: 60_000,
    ready: readyMessage,
  });
  await t.throwsAsync(() => stack.start(listener(port)), { instanceOf: PortTaken });
  await stack.start(listener(await freePortAnywhere()));
  t.deepEqual(
    recordedProcesses(lockFile).map(({ name }) => name),
    ['listener'],
    'the one that lost its port is forgotten',
  );
});
