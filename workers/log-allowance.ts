import { setTimeout as pause } from 'node:timers/promises';

/**
 * Log of one project that a worker records in a second on average, in characters of JSON, and at once after a silence.
 * The longest log of a run has some 540,000: its way through Redis and PostgreSQL to the caller takes 60 ms of
 * processor time, none of which is the runner's own.
 */
const charactersPerSecond = 1024 * 1024;
const burst = 2 * 1024 * 1024;
const maxKept = 1000;

const msFor = (characters: number): number => (characters / charactersPerSecond) * 1000;

/** How much projects have had recorded of late; a project that logs too much begins its next runs later. */
export interface LogAllowance {
  /**
   * Resolves when a run of the project may begin, or when the signal is aborted. At once for nearly all.
   * @returns to be called with the characters of its log once the run is over
   */
  readonly begin: (projectId: string, signal: AbortSignal) => Promise<(characters: number) => void>;
}

interface ProjectLog {
  /** When all that the project has spent will have come back to it. */
  wholeAgain: number;
  /** The log of the last run that ended, by which the next one is estimated. */
  lastCharacters: number;
}

/** @param now milliseconds of a clock that never goes back */
export const createLogAllowance = (now: () => number = () => performance.now()): LogAllowance => {
  const projects = new Map<string, ProjectLog>();

  const forgetOthers = (): void => {
    for (const [projectId, { wholeAgain }] of projects) if (wholeAgain <= now()) projects.delete(projectId);
  };
  const projectOf = (projectId: string): ProjectLog => {
    const known = projects.get(projectId);
    if (known !== undefined) return known;
    if (projects.size >= maxKept) forgetOthers();
    const fresh = { wholeAgain: now(), lastCharacters: 0 };
    projects.set(projectId, fresh);
    return fresh;
  };
  const spend = (project: ProjectLog, characters: number): void => {
    project.wholeAgain = Math.max(now(), project.wholeAgain) + msFor(characters);
  };
  const owedMs = (project: ProjectLog): number => project.wholeAgain - now() - msFor(burst);

  return {
    begin: async (projectId, signal) => {
      for (let ms = owedMs(projectOf(projectId)); ms > 0 && !signal.aborted; ms = owedMs(projectOf(projectId))) {
        await pause(Math.ceil(ms), undefined, { signal }).catch(() => undefined);
      }
      // Spent in advance, so that runs which wait begin one after the other and not all at once.
      const expected = projectOf(projectId).lastCharacters;
      spend(projectOf(projectId), expected);
      return (characters) => {
        const project = projectOf(projectId);
        spend(project, characters - expected);
        project.lastCharacters = characters;
      };
    },
  };
};
