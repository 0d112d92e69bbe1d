import type { DataCaller, DataDb, DataRun, RunOne, RunRows } from '../data-api.ts';
import type { Executor, Work } from './request.ts';

/** Each statement by itself, or several in a transaction of their own. */
export const directExecutor = (data: DataDb, caller: DataCaller, run: Omit<DataRun, 'mode'>): Executor => ({
  isShared: false,
  one: (mode, sql) => data.one(caller, { ...run, mode }, sql),
  rows: (mode, sql) => data.rows(caller, { ...run, mode }, sql),
  atomically: (mode, work) => data.transaction(caller, { ...run, mode }, work),
});

/** The operations within a transaction that has started. */
export const joinedExecutor = (one: RunOne, rows: RunRows): Executor => ({
  isShared: true,
  one: (_mode, sql) => one(sql),
  rows: (_mode, sql) => rows(sql),
  atomically: (_mode, work) => work(one, rows),
});

const setTimeZone = `select set_config('timezone', $1, true)`;

/** The same in the time zone that `Prefer` asks for. */
export const inTimeZone = (executor: Executor, { timezone }: Work['preferences']): Executor => {
  if (timezone === undefined) return executor;
  const atomically: Executor['atomically'] = (mode, work) =>
    executor.atomically(mode, async (one, rows) => {
      await one({ text: setTimeZone, params: [timezone] });
      return work(one, rows);
    });
  return {
    isShared: executor.isShared,
    one: (mode, sql) => atomically(mode, (one) => one(sql)),
    rows: (mode, sql) => atomically(mode, (_one, rows) => rows(sql)),
    atomically,
  };
};
