import { anonymousKib } from '#workers/runtimes/processes.ts';
import type { RunOutcome, RunRequest, Runtime } from '#workers/runtimes/runtime.ts';
import type { SoakCase, SoakCases } from './cases.ts';

export interface Mix {
  readonly runs: number;
  readonly hostile: number;
  /** The most that this process held, in MiB, beyond what it held at first. */
  readonly grownMib: number;
  readonly problems: readonly string[];
}

const honestShare = 0.7;
const callers = 3;
const maxProblems = 20;

const request = (name: string, code: string, payload: number): RunRequest => ({
  projectId: `project-${payload % 3}`,
  functionId: name,
  version: 1,
  code,
  entryPoint: 'handler',
  payload: String(payload),
  env: {},
  timeoutMs: 1500,
  memoryMib: 64,
});

const anyOf = (list: readonly SoakCase[]): SoakCase | undefined => list[Math.floor(Math.random() * list.length)];

const problemOf = ({ name, statuses }: SoakCase, outcome: RunOutcome): string | null =>
  statuses.includes(outcome.status) ? null : `${name} ended with ${outcome.status}: ${outcome.error?.message ?? ''}`;

const heldMib = (): number => anonymousKib(process.pid) / 1024;

/** Runs hostile and honest functions of three projects at random, some at a time, until the time is over. */
export async function mixUntil(runtime: Runtime, cases: SoakCases, until: number): Promise<Mix> {
  const problems: string[] = [];
  const note = (problem: string | null): void => {
    if (problem !== null && problems.length < maxProblems) problems.push(problem);
  };
  let [runs, hostile, grownMib] = [0, 0, 0];
  const before = heldMib();
  const runOne = async (): Promise<void> => {
    runs += 1;
    const n = runs;
    const bad = Math.random() < honestShare ? undefined : anyOf(cases.hostile);
    if (bad === undefined) {
      const { status, result, error } = await runtime.run(request('honest', cases.honest, n));
      note(result === String(n * 2) ? null : `honest code ended with ${status} ${result}: ${error?.message ?? ''}`);
    } else {
      hostile += 1;
      note(problemOf(bad, await runtime.run(request(bad.name, bad.code, n))));
    }
    grownMib = Math.max(grownMib, heldMib() - before);
  };
  const caller = async (): Promise<void> => {
    while (performance.now() < until) await runOne();
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return { runs, hostile, grownMib, problems };
}
