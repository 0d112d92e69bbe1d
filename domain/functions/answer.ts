import type { RunStatus } from '#queues/function-invoke.ts';

/**
 * The end of a run, as the runtime reports it; `result` is JSON text that is parsed nowhere on the way, so it stays
 * exact.
 */
export interface FinishedRun {
  readonly status: RunStatus;
  readonly result: string | null;
  readonly durationMs: number;
  readonly error: { readonly name: string; readonly message: string; readonly stack: string } | null;
  readonly logs: readonly { readonly ts: string; readonly level: string; readonly message: string }[];
}

const afterResult = ',"duration_ms":';

/** The log of a run as JSON text: one for its answer and its record, since it may take some ms to make. */
export const logsTextOf = ({ logs }: FinishedRun): string => (logs.length === 0 ? '' : JSON.stringify(logs));

/**
 * The invoke answer (contract, section 4) as JSON text, around the handler's own result text.
 * @param logsText of the same run
 */
export const invokeAnswer = (invocationId: string, run: FinishedRun, logsText = logsTextOf(run)): string => {
  const rest = JSON.stringify({
    duration_ms: run.durationMs,
    invocation_id: invocationId,
    ...(run.error && { error: run.error }),
  });
  const logs = logsText === '' ? '' : `,"logs":${logsText}`;
  return `{"status":"${run.status}","result":${run.result ?? 'null'},${rest.slice(1, -1)}${logs}}`;
};

/**
 * The handler's bare result text out of an invoke answer. Behind the result no unescaped `,"duration_ms":` can follow,
 * since error and logs hold only strings under fixed names; before it there is only the status.
 */
export const bareResult = (answer: string): string => {
  const begin = answer.indexOf('"result":') + '"result":'.length;
  return answer.slice(begin, answer.lastIndexOf(afterResult));
};
