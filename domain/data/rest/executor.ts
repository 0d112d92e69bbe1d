import type { DataCaller, DataDb, DataRun, RunOne } from '../db.ts';
import type { Executor, Work } from './request.ts';

/** Each statement by itself, or several in a transaction of their own. */
export const directExecutor = (data: DataDb, caller: DataCaller, run: Omit<DataRun, 'mode'>): Executor => ({
  isShared: false,
  one: (mode, sql) => data.one(caller, { ...run, mode }, sql),
  atomically: (mode, work) => data.transaction(caller, { ...run, mode }, work),
});

/** Everything within a transaction that has begun. */
export const joinedExecutor = (one: RunOne): Executor => ({
  isShared: true,
  one: (_mode, sql) => one(sql),
  atomically: (_mode, work) => work(one),
});

const setTimeZone = `select set_config('timezone', $1, true)`;

/** The same in the time zone that `Prefer` asks for. */
export const inTimeZone = (executor: Executor, { timezone }: Work['preferences']): Executor => {
  if (timezone === undefined) return executor;
  const atomically: Executor['atomically'] = (mode, work) =>
    executor.atomically(mode, async (one) => {
      await one({ text: setTimeZone, params: [timezone] });
      return work(one);
    });
  return { isShared: executor.isShared, one: (mode, sql) => atomically(mode, (one) => one(sql)), atomically };
};
