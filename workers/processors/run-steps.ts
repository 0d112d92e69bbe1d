import { type ReportedRun, reportOf } from '#domain/functions/run-report.ts';
import type { JobError, JobOutcome } from '#queues/define.ts';
import type { RunStatus } from '#queues/function-invoke.ts';
import { JobAsleep } from '../processor.ts';
import type { StepSession } from '../services/steps/session.ts';

interface StepRunEnd {
  readonly run: ReportedRun;
  readonly logsText: string;
  /** Aborted when the job was stopped. */
  readonly signal: AbortSignal;
}

/** Ends that user code did not choose: a step that ran then has failed. */
const brokenOff: ReadonlySet<RunStatus> = new Set([
  'timeout',
  'memory_limit',
  'cpu_limit',
  'crashed',
  'result_too_large',
]);

/** Whether the steps that ran when the run broke off have attempts left. Those that have not have failed. */
const isTriedAgain = async (steps: StepSession, { status }: ReportedRun, { error }: JobOutcome): Promise<boolean> => {
  if (!brokenOff.has(status) || !steps.isInStep) return false;
  return steps.breakOff(error ?? { code: status, message: '' });
};

/**
 * How a run ends that may have steps.
 * @param outcomeOf as a run without steps would end
 * @throws {JobAsleep} when it does not end: it is continued later
 */
export const afterSteps = async (
  steps: StepSession | undefined,
  { run, logsText, signal }: StepRunEnd,
  outcomeOf: () => JobOutcome,
): Promise<JobOutcome> => {
  if (!steps?.hasStarted || signal.aborted) return outcomeOf();
  const asleep = (error: JobError | null): JobAsleep =>
    new JobAsleep({ wakes: steps.wakes, report: reportOf(run, logsText), error });
  if (steps.failure !== null) return { ...outcomeOf(), status: 'failed', error: steps.failure, isFinal: true };
  if (run.status === 'success') {
    if (steps.isSuspended) throw asleep(null);
    return outcomeOf();
  }
  // A platform that was away is not the fault of the run: its steps so far are recorded, or will be done again.
  if (run.status === 'timeout' && steps.isHeldUp) throw asleep(null);
  const outcome = outcomeOf();
  if (await isTriedAgain(steps, run, outcome)) throw asleep(outcome.error);
  return { ...outcome, isFinal: steps.hasFailedBy(run.error) };
};
