import path from 'node:path';
import test from 'ava';
import { poolNames } from '#queues/define.ts';
import { jobs } from '#queues/registry.ts';
import { allSettings } from '#queues/settings.ts';
import { processorTable } from '#scripts/processor-table.ts';
import { checkProcessors } from '#workers/worker.ts';
import { filesOf, root } from './source.ts';

const fileOf = (type: string): string => type.replaceAll(/[._]/g, '-');

const isJob = (value: unknown): value is { type: string } =>
  typeof value === 'object' && value !== null && 'type' in value && 'pool' in value && 'maxAttempts' in value;

test('every job that a queue file defines is registered, once, under its own name', async (t) => {
  const defined: { type: string }[] = [];
  for (const { name } of filesOf(['queues'])) {
    defined.push(...Object.values((await import(path.join(root, name))) as Record<string, unknown>).filter(isJob));
  }
  t.deepEqual(defined.map((job) => job.type).toSorted(), jobs.map((job) => job.type).toSorted());
  t.is(new Set(jobs.map((job) => job.type)).size, jobs.length);
});

test('every job goes to a pool that exists', (t) => {
  for (const job of jobs) t.true((poolNames as readonly string[]).includes(job.pool), job.type);
});

test('of every job some may run, more on a better plan, each within its time-out', (t) => {
  for (const { type, running, timeoutMs, maxAttempts } of jobs) {
    t.true(running.free >= 1 && running.pro >= running.free && running.enterprise >= running.pro, type);
    t.true(timeoutMs > 0 && maxAttempts >= 1, type);
  }
});

test('every job has a file of its name in queues/ and a processor of its name in workers/processors/', (t) => {
  const names = new Set(filesOf(['queues', 'workers/processors']).map((file) => file.name));
  for (const { type } of jobs) {
    t.true(names.has(`queues/${fileOf(type)}.ts`), type);
    t.true(names.has(`workers/processors/${fileOf(type)}.ts`), type);
  }
});

test('the worker is given a processor for every job (npm run processors writes the list)', (t) => {
  const list = filesOf(['workers/processors']).find((file) => file.name === 'workers/processors/registry.ts');
  t.is(list?.text, processorTable(jobs));
});

test('every job type has a setting that bounds it on the whole installation', (t) => {
  for (const { type } of jobs) {
    t.true(`PLINTH_GLOBAL_${type.replaceAll('.', '_').toUpperCase()}` in allSettings.shape, type);
  }
});

test('a worker refuses to start without a processor for a job of its pools', (t) => {
  const [job] = jobs;
  t.throws(() => checkProcessors([job.pool], {}), { message: /no processor for/ });
  t.notThrows(() => checkProcessors([], {}));
});
