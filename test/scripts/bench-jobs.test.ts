import path from 'node:path';
import test from 'ava';
import { jobBenchmarks } from '#bench/jobs.ts';
import { type StartChild, withChildren } from '#bench/jobs/child.ts';
import { waits } from '#bench/jobs/latency.ts';
import type { Bench } from '#bench/harness.ts';

const root = path.resolve(import.meta.dirname, '../..');

/** As much of a benchmark's surroundings as its processes need. */
const withProcesses = <T>(work: (start: StartChild) => Promise<T>): Promise<T> =>
  withChildren({ root, env: {}, signal: new AbortController().signal } as Bench, work);

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test('every figure of the job engine is measured, also with a million jobs', (t) => {
  const names = [
    'jobs/throughput',
    'jobs/idle-latency',
    'jobs/round-trip',
    'jobs/noisy-neighbour',
    'jobs/accept',
    'jobs/idle-cpu',
  ];
  t.deepEqual(
    jobBenchmarks(false).map(({ name }) => name),
    names,
  );
  t.deepEqual(
    jobBenchmarks(true).map(({ name }) => name),
    names,
  );
});

test('a job waits from its call to its beginning, whatever the order in which jobs begin', (t) => {
  const requested = [['a', 10] as const, ['b', 11] as const];
  t.deepEqual(waits(requested, [['c', 1] as const, ['b', 14] as const, ['a', 30] as const]), [20, 3]);
  t.deepEqual(waits(requested, [['a', 30] as const]), [20, Number.NaN]);
});

test('what goes wrong in a process of a benchmark reaches who asked, and no process stays', async (t) => {
  const pids: number[] = [];
  await withProcesses(async (start) => {
    const [producer, worker] = [start('producer'), start('worker')];
    pids.push(producer.pid, worker.pid);
    await t.throwsAsync(producer.ask('flood', { projects: ['p'], count: 1, callers: 1 }), { message: /open it first/ });
    await t.throwsAsync(worker.ask('nonsense'), { message: /no handler for nonsense/ });
    t.is(await worker.ask<number>('count'), 0);
  });
  t.deepEqual(
    pids.map((pid) => isAlive(pid)),
    [false, false],
  );
});

test('a process of a benchmark that dies fails what it was asked', async (t) => {
  await withProcesses(async (start) => {
    const worker = start('worker');
    const ended = worker.ask('ended', 1);
    await worker.ask('count');
    await worker.kill();
    await t.throwsAsync(ended, { message: /ended too early/ });
  });
});
