import test from 'ava';
import { createLine, inLine } from '#domain/data-api/effort.ts';
import type { TenantRole } from '#lib/tenant-db.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { openScene } from './scene.ts';

const platform = usePlatform(test, { shared: true });
const { signal } = new AbortController();
const twoAtOnce = createLine(2);

/** Statements of a project that run until they are told to end. */
const running = (projectId: string, role: TenantRole = 'owner', line = twoAtOnce) => {
  const started: PromiseWithResolvers<void>[] = [];
  const ask = (by = signal): Promise<void> =>
    line({ projectId, role, signal: by }, () => {
      const one = Promise.withResolvers<void>();
      started.push(one);
      return one.promise;
    });
  return { started, ask };
};

test('two statements of a project run, further ones take their turn, and another project waits for none', async (t) => {
  const [busy, quiet] = [running('line-busy'), running('line-quiet')];
  const all = [busy.ask(), busy.ask(), busy.ask(), busy.ask()];
  const other = quiet.ask();
  await until(() => quiet.started.length === 1);
  t.is(busy.started.length, 2);
  busy.started[1]?.resolve();
  await until(() => busy.started.length === 3);
  busy.started[0]?.reject(new Error('refused'));
  await t.throwsAsync(all[0] ?? Promise.resolve(), { message: 'refused' });
  await until(() => busy.started.length === 4);
  for (const { started } of [busy, quiet]) for (const one of started) one.resolve();
  await Promise.all([...all.slice(1), other]);
});

test('who leaves while waiting leaves the line, and runs nothing', async (t) => {
  const { started, ask } = running('line-left');
  const leaver = new AbortController();
  const all = [ask(), ask()];
  const left = ask(leaver.signal);
  all.push(ask());
  await until(() => started.length === 2);
  leaver.abort();
  await t.throwsAsync(left, { message: 'the caller has gone' });
  started[0]?.resolve();
  await until(() => started.length === 3);
  for (const one of started) one.resolve();
  await Promise.all(all);
  await t.throwsAsync(ask(leaver.signal), { message: 'the caller has gone' });
  t.is(started.length, 3);
});

test('those who only read do not keep out those who own the tables', async (t) => {
  const [readers, owners] = [running('line-roles', 'reader'), running('line-roles', 'owner')];
  const reading = Array.from({ length: 6 }, () => readers.ask());
  await until(() => readers.started.length === 2);
  const owning = owners.ask();
  readers.started[0]?.resolve();
  await until(() => owners.started.length === 1);
  t.is(readers.started.length, 2);
  owners.started[0]?.resolve();
  await owning;
  for (let ended = 1; ended < 6; ended += 1) {
    await until(() => readers.started.length > ended);
    readers.started[ended]?.resolve();
  }
  await Promise.all(reading);
});

test('no more than twenty wait, and whoever asks the console then is told what to do', async (t) => {
  const { project, query } = await openScene(platform());
  const { started, ask } = running(project.id, 'owner', inLine);
  const all = Promise.allSettled(Array.from({ length: 30 }, () => ask()));
  const long = 'do $$ begin end $$';
  const refused = await query(long);
  t.is(refused.status, 503);
  t.is(refused.headers.get('retry-after'), '5');
  t.like(refused.body, {
    code: 'dependency_unavailable',
    message: 'Other statements of this project still run. Try again later.',
    hint: 'One or two statements of a project run at a time; up to twenty more wait for up to 40 s.',
  });
  t.is((await query('select 1')).status, 200);
  // The running statements, and twenty more.
  const max = started.length + 20;
  for (let ended = 0; ended < max; ended += 1) {
    await until(() => started.length > ended);
    started[ended]?.resolve();
  }
  const ends = await all;
  t.is(ends.filter(({ status }) => status === 'fulfilled').length, max);
  t.is((await query(long)).status, 200);
});
