/** A process that was ended, so that it is recognized later. */
export interface EndedProcess {
  readonly processId: number;
  readonly startedAt: string;
}

/**
 * Remembers which sessions were ended, and which of them go on: some computations of a server check for no
 * interruption.
 */
export interface UncancellableSessions {
  /**
   * @param ended everything on that server that was ended just now, be it once more
   * @param now in ms
   * @returns what goes on for 5 s after its first end, each once
   */
  readonly observe: <E extends EndedProcess>(serverId: string, ended: readonly E[], now?: number) => E[];
  /** Whether it was ended before, in an earlier check. */
  readonly wasEnded: (serverId: string, process: EndedProcess) => boolean;
  /** How many go on. */
  readonly count: () => number;
}

const patienceMs = 5000;

const keyOf = (serverId: string, { processId, startedAt }: EndedProcess): string =>
  `${serverId} ${processId} ${startedAt}`;

export const createUncancellableSessions = (): UncancellableSessions => {
  const known = new Map<string, { readonly since: number; isReported: boolean }>();
  return {
    observe: (serverId, ended, now = performance.now()) => {
      const here = new Set(ended.map((process) => keyOf(serverId, process)));
      for (const key of known.keys()) if (key.startsWith(`${serverId} `) && !here.has(key)) known.delete(key);
      return ended.filter((process) => {
        const key = keyOf(serverId, process);
        const entry = known.get(key) ?? { since: now, isReported: false };
        known.set(key, entry);
        if (entry.isReported || now - entry.since <= patienceMs) return false;
        entry.isReported = true;
        return true;
      });
    },
    wasEnded: (serverId, process) => known.has(keyOf(serverId, process)),
    count: () => [...known.values()].filter(({ isReported }) => isReported).length,
  };
};
