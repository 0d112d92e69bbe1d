import { existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { explain } from '#scripts/errors.ts';
import { trimLog } from '#scripts/infra/logs.ts';
import { failureMemory } from '#scripts/infra/memory.ts';
import { onWorkbench } from '#scripts/infra/workbench.ts';
import { type RunProgram, programRunner } from '#scripts/run-program.ts';
import { readSettings } from '#scripts/settings.ts';
import { isAlive, temporaryFolder, until } from './support.ts';

test('a failure is remembered for a day', (t) => {
  const folder = temporaryFolder(t);
  const memory = failureMemory(folder, 'thing');
  t.is(memory.recent(), null);
  memory.remember('no network');
  t.is(failureMemory(folder, 'thing').recent(), 'no network');
  writeFileSync(
    path.join(folder, 'thing.failed.json'),
    JSON.stringify({ at: Date.now() - 25 * 3_600_000, reason: 'old' }),
  );
  t.is(memory.recent(), null);
});

test('a log that has grown large is put aside, a small one is kept', (t) => {
  const file = path.join(temporaryFolder(t), 'server.log');
  writeFileSync(file, 'small');
  trimLog(file);
  t.is(statSync(file).size, 5);
  writeFileSync(file, Buffer.alloc(11 * 1024 * 1024));
  trimLog(file);
  t.false(existsSync(file));
  t.true(existsSync(`${file}.1`));
});

test('a workbench is removed after a failure, and so is one whose maker was killed', async (t) => {
  const folder = temporaryFolder(t);
  const abandoned = path.join(folder, 'making-999999999-thing');
  mkdirSync(abandoned);
  const making = onWorkbench(folder, 'thing', async (bench) => {
    writeFileSync(path.join(bench, 'half'), '');
    throw new Error('no');
  });
  await t.throwsAsync(making, { message: 'no' });
  t.deepEqual(readdirSync(folder), []);
});

const watched = (signal: AbortSignal): { run: RunProgram; running: Set<number> } => {
  const running = new Set<number>();
  const run = programRunner({ signal, began: (pid) => running.add(pid), ended: (pid) => running.delete(pid) });
  return { run, running };
};

test('a program that fails is reported with the last thing it said', async (t) => {
  const { run, running } = watched(new AbortController().signal);
  const failing = run('sh', ['-c', 'echo first >&2; echo last words >&2; exit 4']);
  await t.throwsAsync(failing, { message: 'sh ended with code 4: last words' });
  t.is(running.size, 0);
});

test('stopping kills a program that runs, with what it started', async (t) => {
  const abort = new AbortController();
  const { run, running } = watched(abort.signal);
  const endless = run('sh', ['-c', 'sleep 600 & sleep 600']);
  const [pid = 0] = running;
  t.true(isAlive(pid));
  abort.abort();
  await t.throwsAsync(endless, { message: /SIGKILL/ });
  await until(() => !isAlive(pid));
});

const systemError = (code: string): Error => Object.assign(new Error(code), { code, path: '/srv/data' });

test('a read-only or full disk is explained in a sentence, a bug is not', (t) => {
  t.regex(explain(systemError('EROFS'))?.message ?? '', /^\/srv\/data cannot be written/);
  t.regex(explain(systemError('ENOSPC'))?.message ?? '', /^The disk that holds \/srv\/data is full/);
  t.is(explain(new TypeError('x is undefined')), null);
});

test('settings that are wrong are refused by name, and DATA_DIR becomes absolute', (t) => {
  const root = temporaryFolder(t);
  t.throws(() => readSettings({ PORT: '80a' }, root), { message: /^PORT must be/ });
  t.throws(() => readSettings({ WORKERS: '-1' }, root), { message: /^WORKERS must be/ });
  t.is(readSettings({ DATA_DIR: 'here and there' }, root).dataDir, path.resolve('here and there'));
  t.like(readSettings({ PORT: '', REDIS_URL: '' }, root), {
    port: null,
    redisUrl: null,
    dataDir: path.join(root, '.data'),
  });
});
