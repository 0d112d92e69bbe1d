import { existsSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { recordedProcesses } from '#scripts/pid-lock.ts';
import { type Program, isAlive, root, runScript, temporaryFolder, until } from './support.ts';

interface Dummy {
  readonly program: Program;
  readonly lockFile: string;
  readonly guard: () => number;
  readonly processes: () => number[];
}

const begin = async (t: ExecutionContext): Promise<Dummy> => {
  const folder = temporaryFolder(t);
  const lockFile = path.join(folder, 'platform.pid');
  const program = runScript([path.join(root, 'test/scripts/dummy-platform.ts'), lockFile, folder]);
  let guard = 0;
  program.child.on('message', (message) => {
    guard = (message as { guard: number }).guard;
  });
  t.teardown(() => program.child.kill('SIGKILL'));
  await until(() => guard > 0 && recordedProcesses(lockFile).length === 3);
  return { program, lockFile, guard: () => guard, processes: () => recordedProcesses(lockFile).map(({ pid }) => pid) };
};

const allGone = (pids: readonly number[]): Promise<true> => until(() => !pids.some(isAlive));

test('when the supervisor is killed the guard ends all its processes, also a deaf one, and removes the lock', async (t) => {
  const { program, lockFile, guard, processes } = await begin(t);
  const pids = [...processes(), guard()];
  t.is(pids.filter(isAlive).length, 4);
  program.child.kill('SIGKILL');
  await allGone(pids);
  t.false(existsSync(lockFile));
});

test('a guard that is killed is replaced, and the new one knows the same processes', async (t) => {
  const { program, guard, processes } = await begin(t);
  const first = guard();
  process.kill(first, 'SIGKILL');
  await until(() => guard() !== first && isAlive(guard()));
  const pids = [...processes(), guard()];
  t.is(pids.filter(isAlive).length, 4);
  program.child.kill('SIGKILL');
  await allGone(pids);
});

test('after an ordinary stop neither the guard nor the lock is left', async (t) => {
  const { program, lockFile, guard, processes } = await begin(t);
  const pids = [...processes(), guard()];
  program.child.send('stop');
  t.is(await program.end, 0);
  await allGone(pids);
  t.false(existsSync(lockFile));
});
