import { AsyncLocalStorage } from 'node:async_hooks';

/** The fields that every log line of a request or a job carries. */
export interface LogContext {
  requestId?: string;
  projectId?: string;
  jobId?: string;
}

const storage = new AsyncLocalStorage<LogContext>();

/** Runs `work` so that each log line written below it carries `context`. */
export const withLogContext = <T>(context: LogContext, work: () => T): T => storage.run(context, work);

/** Adds to the present context, for what is known only later (the project of a request). */
export const addLogContext = (more: LogContext): void => {
  Object.assign(storage.getStore() ?? {}, more);
};

export const logContext = (): LogContext => storage.getStore() ?? {};
