import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { type LockRecord, claimLock, lockOwner, releaseLock } from '#scripts/pid-lock.ts';
import { type ProcessRecord, processIdentity } from '#scripts/process-identity.ts';
import { readText, runScript, temporaryFolder } from './support.ts';

const lockProgram = `
  import { claimLock } from '#scripts/pid-lock.ts';
  const claim = claimLock(process.argv[1]);
  console.log(claim.taken ? 'taken' : 'refused');
  process.channel.ref();
`;

const fileIn = (folder: string): string => path.join(folder, 'platform.pid');

test('a folder that is in use is refused, with the pid and the address of its owner', (t) => {
  const file = fileIn(temporaryFolder(t));
  const first = claimLock(file);
  t.true(first.taken);
  if (first.taken) first.lock.update({ url: 'http://127.0.0.1:1' });
  const second = claimLock(file);
  t.false(second.taken);
  if (!second.taken) t.like(second.owner, { pid: process.pid, url: 'http://127.0.0.1:1' });
});

test('a released folder can be claimed again, and nothing is left in it', (t) => {
  const folder = temporaryFolder(t);
  const claim = claimLock(fileIn(folder));
  if (claim.taken) {
    claim.lock.release();
    claim.lock.update({ url: 'http://too-late' });
  }
  t.deepEqual(readdirSync(folder), []);
  t.true(claimLock(fileIn(folder)).taken);
});

test('a lock whose pid belongs to another program by now is taken over with the processes it names', (t) => {
  const file = fileIn(temporaryFolder(t));
  const left: ProcessRecord = { name: 'redis', pid: 1, identity: 'before', stage: 'infra', stopSignal: 'SIGTERM' };
  const stale: LockRecord = { pid: process.pid, identity: 'another beginning', processes: [left] };
  writeFileSync(file, JSON.stringify(stale));
  t.is(lockOwner(file), null);
  const claim = claimLock(file);
  t.true(claim.taken);
  if (claim.taken) t.deepEqual(claim.leftovers, [left]);
  t.is(lockOwner(file)?.identity, processIdentity(process.pid) ?? '');
});

test('a lock file with nonsense in it does not block', (t) => {
  const file = fileIn(temporaryFolder(t));
  writeFileSync(file, 'nonsense');
  t.true(claimLock(file).taken);
});

test('of many that claim a stale lock at once exactly one gets it', async (t) => {
  const file = fileIn(temporaryFolder(t));
  writeFileSync(file, JSON.stringify({ pid: process.pid, identity: 'another beginning', processes: [] }));
  const args = ['--input-type=module', '-e', lockProgram, file];
  const programs = Array.from({ length: 6 }, () => runScript(args));
  t.teardown(() => programs.forEach(({ child }) => child.kill('SIGKILL')));
  const answers = programs.map(
    ({ child }) =>
      new Promise<string>((resolve) => {
        child.stdout?.once('data', (text: string) => resolve(text.trim()));
      }),
  );
  t.deepEqual(
    (await Promise.all(answers)).filter((answer) => answer === 'taken'),
    ['taken'],
  );
});

test('a lock is not removed for another pid', (t) => {
  const file = fileIn(temporaryFolder(t));
  claimLock(file);
  releaseLock(file, process.pid + 1);
  t.true(existsSync(file));
  t.regex(readText(file), new RegExp(`"pid":${process.pid},`));
});
