import { readFileSync } from 'node:fs';
import type { ExecutionContext, TestFn } from 'ava';
import { type TestPlatform, usePlatform } from '#test/support/platform.ts';
import type { Answer, TestFunction, TestProject, TestUser } from '#test/support/client.ts';
import { guests } from '#test/runtimes/harness.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { anonymousKib, processTree, proportionalKib } from '#workers/runtimes/processes.ts';

/**
 * Code that means harm, and the ways its run may end (contract, section 4); alone among runs, so that it can be
 * measured.
 */
export type Case = readonly [code: string, ...statuses: string[]];

export interface Scene {
  readonly platform: () => TestPlatform;
  readonly deploy: (code: string, fields?: Record<string, unknown>) => Promise<TestFunction>;
  readonly invoke: (fn: TestFunction, payload?: unknown) => Promise<Answer>;
  /** Runs the code once, with 64 MB and a second, and then an honest function of the same project. */
  readonly suffer: (t: ExecutionContext, hostile: Case, fields?: Record<string, unknown>) => Promise<Answer>;
  /** Resolves when the only guests alive are a few that wait for work, small and whole. */
  readonly calm: () => Promise<void>;
}

const mib = 1024;
const memoryMb = 64;
/**
 * The memory that a bomb may take beyond its limit before it is stopped, over all processes of the worker's guests and
 * the worker.
 */
const maxBeyondMib = 150;
const maxTries = 3;

type MemoryOf = (pid: number) => number;

/** Processes that were forked share pages: each counts for its part of them, or, which is cheap to read, for all. */
const heldKib = (memoryOf: MemoryOf = proportionalKib): number =>
  guests().reduce((sum, pid) => sum + memoryOf(pid), anonymousKib(process.pid));

/** The most that worker and guests held while `work` went on, beyond what they held before. */
async function peakMib(work: () => Promise<unknown>): Promise<number> {
  const before = heldKib();
  let peak = before;
  // The parts never exceed the whole, and reading them took 20 s of CPU for 24 bombs: only for what may be a new peak.
  const timer = setInterval(() => {
    if (heldKib(anonymousKib) > peak) peak = Math.max(peak, heldKib());
  }, 20);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return (peak - before) / mib;
}

const stateOf = (pid: number): string => {
  try {
    return /^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? '';
  } catch {
    return '';
  }
};

/** Two slots have at most four runners, and there is one spare; each is a chain of at most four processes. */
const maxProcesses = 5 * 4;

const isCalm = (): boolean => {
  const alive = guests();
  const isDead = processTree(process.pid).some((pid) => stateOf(pid) === 'Z');
  return !isDead && alive.length <= maxProcesses && alive.every((pid) => anonymousKib(pid) < 100 * mib);
};

export function useHostileScene(test: TestFn): Scene {
  const platform = usePlatform(test, { settings: { PLINTH_FUNCTION_SLOTS: '2' } });
  let user: TestUser;
  let project: TestProject;
  let honest: TestFunction;

  const deploy: Scene['deploy'] = (code, fields = {}) => platform().client.deploy(user, project, code, fields);
  const invoke: Scene['invoke'] = (fn, payload = null) => platform().client.invoke(user, project, fn, payload);

  test.before('a project with an honest function', async () => {
    user = await platform().client.signUp();
    project = await platform().client.createProject(user);
    honest = await deploy(
      'exports.handler = (n) => ({ n, clean: Object.keys(globalThis).length, json: JSON.stringify([n]) })',
    );
    const first = await invoke(honest, 0);
    clean = first.body.result.clean;
  });

  let clean = -1;
  let requested = 0;
  const isUnharmed = async (t: ExecutionContext): Promise<void> => {
    requested += 1;
    const { body } = await invoke(honest, requested);
    t.deepEqual(body.result, { n: requested, clean, json: `[${requested}]` });
  };

  return {
    platform,
    deploy,
    invoke,
    calm: async () => {
      await until(isCalm);
    },
    suffer: async (t, [code, ...statuses], fields = {}) => {
      t.timeout(longTestMs);
      const fn = await deploy(code, { memory_mb: memoryMb, timeout_ms: 1000, ...fields });
      const peaks: number[] = [];
      for (;;) {
        let answer: Answer | undefined;
        peaks.push(await peakMib(async () => (answer = await invoke(fn, { __proto__: null, evil: true }))));
        if (answer === undefined) throw new Error('no answer');
        t.is(answer.status, 200, answer.text.slice(0, 500));
        t.true(statuses.includes(answer.body.status), `${answer.body.status}: ${JSON.stringify(answer.body.error)}`);
        await isUnharmed(t);
        if (Math.min(...peaks) <= memoryMb + maxBeyondMib) return answer;
        // The watchdog comes late where tests beside this one have the processors, and what they made is counted, too.
        if (peaks.length === maxTries) throw new Error(`${peaks.map(Math.round).join(', ')} MiB`);
      }
    },
  };
}
