import { setTimeout as pause } from 'node:timers/promises';

/**
 * Log of one project that a worker records in a second on average, in characters of JSON, and at once after a silence.
 * The longest log of a run has some 540,000: its way through Redis and PostgreSQL to the caller takes 60 ms of processor
 * time, none of which is the runner's own.
 */
const charactersPerSecond = 1024 * 1024;
const burst = 4 * 1024 * 1024;
const mostKept = 1000;

/** How much projects have had recorded of late; a project that logs too much begins its next runs later. */
export interface LogAllowance {
  readonly spend: (projectId: string, characters: number) => void;
  /** Resolves when the project has something left, or when the signal is aborted. At once for nearly all. */
  readonly ready: (projectId: string, signal: AbortSignal) => Promise<void>;
}

/** @param now milliseconds of a clock that never goes back */
export const createLogAllowance = (now: () => number = () => performance.now()): LogAllowance => {
  /** By project, when all that it has spent will have come back to it. */
  const wholeAgain = new Map<string, number>();

  const forgetOthers = (at: number): void => {
    for (const [projectId, when] of wholeAgain) if (when <= at) wholeAgain.delete(projectId);
  };
  const owedMs = (projectId: string): number => {
    const missingMs = (wholeAgain.get(projectId) ?? 0) - now();
    return missingMs - (burst / charactersPerSecond) * 1000;
  };
  return {
    spend: (projectId, characters) => {
      if (characters === 0) return;
      const at = now();
      if (wholeAgain.size >= mostKept) forgetOthers(at);
      const from = Math.max(at, wholeAgain.get(projectId) ?? 0);
      wholeAgain.set(projectId, from + (characters / charactersPerSecond) * 1000);
    },
    ready: async (projectId, signal) => {
      for (let ms = owedMs(projectId); ms > 0 && !signal.aborted; ms = owedMs(projectId)) {
        await pause(Math.ceil(ms), undefined, { signal }).catch(() => undefined);
      }
    },
  };
};
