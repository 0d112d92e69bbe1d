import type { LoadRunnable } from '#domain/functions/runnables.ts';
import { recordSnapshot } from '#domain/functions/snapshots.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JobData } from '#queues/define.ts';
import { functionSnapshot } from '#queues/function-snapshot.ts';
import type { Processor } from '../processor.ts';
import type { RunOutcome } from '../runtimes/runtime.ts';
import type { Runtimes } from './function-invoke.ts';

interface FunctionSnapshotDeps {
  readonly db: Queryable;
  readonly load: LoadRunnable;
  readonly runtimes: Runtimes;
}

/** The sandbox is not trusted: what it says is checked like any result. */
const faultOf = ({ status, result, error }: RunOutcome): string | null => {
  if (status === 'success' && result !== null) {
    const said = functionSnapshot.result.safeParse(JSON.parse(result));
    if (said.success) return said.data.fault;
  }
  return error?.message ?? `the module ended with ${status} when it was evaluated`;
};

/** Tries whether the module of a version can be evaluated ahead of its runs, in the sandbox of its project. */
export const functionSnapshotProcessor = ({ db, load, runtimes }: FunctionSnapshotDeps): Processor => ({
  run: async (given, { projectId, signal, isAwaited }) => {
    const { function_id: functionId, version } = given as JobData<typeof functionSnapshot>;
    const fn = await load(functionId, version, 0);
    const runtime = runtimes.javascript;
    if (fn === undefined || runtime === undefined) throw new ServiceError('not_found', 'The function was deleted.');
    const { compiled: code, timeoutMs, memoryMib, env, entryPoint } = fn;
    const request = { projectId, functionId, version, code, entryPoint, payload: 'null', env, timeoutMs, memoryMib };
    const attempt = (): Promise<RunOutcome> => runtime.run({ ...request, isTrial: true }, { signal, isAwaited });
    let outcome = await attempt();
    // The engine ended the process over it, or a process that was busy ended: the second time this worker knows.
    if (outcome.status === 'crashed') outcome = await attempt();
    if (outcome.status === 'cancelled') throw new Error('the trial of a module was stopped');
    const fault = faultOf(outcome);
    await recordSnapshot(db, { functionId, version, fault });
    return { status: 'succeeded', result: JSON.stringify({ fault }), error: null };
  },
});
