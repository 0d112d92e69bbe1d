import type { RunStatus } from '#queues/function-invoke.ts';
import type { ResultMessage } from './messages.ts';
import type { RunLog } from './run-log.ts';
import { type RunError, type RunOutcome, type RunRequest, maxErrorLength, maxResultBytes } from './runtime.ts';
import type { Watch } from './watchdog.ts';

/** Why the host ended a run itself. */
export type EndCause = 'timeout' | 'memory_limit' | 'cpu_limit' | 'crashed' | 'cancelled';

export interface RunFigures {
  readonly durationMs: number;
  readonly cpuMs: number;
  readonly memoryPeakMib: number;
  readonly networkMs?: number | undefined;
}

/** Figures that a guest gives of itself are shown, not acted upon; they have to fit into a column. */
const maxBelieved = 1e9;
const round = (value: number): number => Math.round(value * 100) / 100;

/** @param message what the guest says of the run; left out when it ended without a word */
export const figuresOf = (
  { startedAt, watch }: { readonly startedAt: number; readonly watch: Watch },
  message?: ResultMessage,
): RunFigures => ({
  durationMs: round(performance.now() - startedAt),
  cpuMs: round(Math.min(message?.cpuMs ?? watch.cpuMs, maxBelieved)),
  memoryPeakMib: round(Math.max(Math.min(message?.memoryMib ?? 0, maxBelieved), watch.peakKib / 1024)),
});

const tooLarge = { name: 'ResultTooLargeError', message: 'The result is larger than 1 MiB of JSON.', stack: '' };

export function outcomeOfResult(message: ResultMessage, log: RunLog, figures: RunFigures): RunOutcome {
  const isTooLarge = message.result !== null && Buffer.byteLength(message.result) > maxResultBytes;
  const status = isTooLarge ? 'result_too_large' : message.status;
  return {
    ...base(status, log, figures),
    result: status === 'success' ? (message.result ?? 'null') : null,
    ...(status === 'success' && message.response && { response: message.response }),
    error: status === 'result_too_large' ? tooLarge : bounded(message.error),
  };
}

export function outcomeOfEnd(cause: EndCause, request: RunRequest, log: RunLog, figures: RunFigures): RunOutcome {
  return { ...base(cause, log, figures), error: errorOfEnd(cause, request) };
}

/** No user code has run: the caller may try again. */
export function outcomeOfNoStart(status: 'crashed' | 'cancelled', message: string): RunOutcome {
  return {
    status,
    result: null,
    error: { name: 'NotStarted', message, stack: '' },
    logs: [],
    logsTruncated: false,
    durationMs: 0,
    cpuMs: 0,
    memoryPeakMib: 0,
    started: false,
  };
}

/** @param fault why a module cannot be evaluated ahead of its runs */
export function outcomeOfTrial(fault: string): RunOutcome {
  const outcome = outcomeOfNoStart('cancelled', '');
  return { ...outcome, status: 'success', result: JSON.stringify({ fault }), error: null };
}

function base(status: RunStatus, log: RunLog, figures: RunFigures): RunOutcome {
  const { lines: logs, truncated: logsTruncated } = log;
  return { status, result: null, error: null, logs, logsTruncated, ...figures, started: true };
}

function errorOfEnd(cause: EndCause, { timeoutMs, memoryMib }: RunRequest): RunError {
  const explain: Record<EndCause, [name: string, message: string]> = {
    timeout: ['TimeoutError', `The function did not finish within ${timeoutMs} ms.`],
    memory_limit: ['MemoryLimitError', `The function used more than ${memoryMib} MiB of memory.`],
    cpu_limit: ['CpuLimitError', 'The function used more CPU time than its time-out plus 2 seconds.'],
    crashed: ['CrashError', 'The process that ran the function ended unexpectedly.'],
    cancelled: ['AbortError', 'The run was cancelled.'],
  };
  const [name, message] = explain[cause];
  return { name, message, stack: '' };
}

function bounded(error: RunError | null): RunError | null {
  if (error === null) return null;
  const half = maxErrorLength / 2;
  return { name: error.name.slice(0, 256), message: error.message.slice(0, half), stack: error.stack.slice(0, half) };
}
