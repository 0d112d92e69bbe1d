/** A worker without heartbeats for so long, while others had some, is dead. Its own watchdog ends it sooner. */
const deadAfterMs = 8000;
const minObservations = 5;
/** A process that has observed nothing for so long declares nobody dead. */
const maxObservationAgeMs = 3000;
const forgetAfterMs = 10 * 60_000;

interface LastHeartbeat {
  /** '' for a worker without any heartbeat yet. */
  readonly heartbeat: string;
  readonly at: number;
  /** The number of observations of others since. */
  readonly observations: number;
}

/**
 * Decides by heartbeats which workers are dead: a time without any heartbeats (Redis was away) counts against nobody.
 */
export interface FailureDetector {
  /** @param heartbeats the last beat of each worker */
  readonly observe: (heartbeats: ReadonlyMap<string, string>, now: number) => void;
  /** Whether a worker is dead; one without any heartbeat yet is watched from now on. */
  readonly isDead: (workerId: string, now: number) => boolean;
  /** Workers with heartbeats that are not known to be dead. */
  readonly alive: (now: number) => readonly string[];
}

export const createFailureDetector = (): FailureDetector => {
  const lastHeartbeats = new Map<string, LastHeartbeat>();
  let observedAt = Number.NEGATIVE_INFINITY;
  const judge = ({ at, observations }: LastHeartbeat, now: number): boolean =>
    now - at >= deadAfterMs && observations >= minObservations && now - observedAt < maxObservationAgeMs;
  return {
    observe: (heartbeats, now) => {
      observedAt = now;
      for (const [id, last] of lastHeartbeats) {
        const isNew = heartbeats.has(id) && heartbeats.get(id) !== last.heartbeat;
        if (now - last.at > forgetAfterMs && !heartbeats.has(id)) lastHeartbeats.delete(id);
        else if (!isNew) lastHeartbeats.set(id, { ...last, observations: last.observations + 1 });
      }
      for (const [id, heartbeat] of heartbeats) {
        if (lastHeartbeats.get(id)?.heartbeat !== heartbeat)
          lastHeartbeats.set(id, { heartbeat, at: now, observations: 0 });
      }
    },
    isDead: (workerId, now) => {
      const last = lastHeartbeats.get(workerId);
      if (last !== undefined) return judge(last, now);
      lastHeartbeats.set(workerId, { heartbeat: '', at: now, observations: 0 });
      return false;
    },
    alive: (now) =>
      [...lastHeartbeats].flatMap(([id, last]) => (last.heartbeat === '' || judge(last, now) ? [] : [id])),
  };
};
