/** A worker that was silent for so long, while others were heard, is dead. Its own watch ends it sooner. */
const deadAfterMs = 8000;
const minObservations = 5;
/** Who has not listened for so long judges nobody. */
const deafAfterMs = 3000;
const forgetAfterMs = 10 * 60_000;

interface Heard {
  /** '' for one that was never heard. */
  readonly beat: string;
  readonly at: number;
  /** How often others were heard since. */
  readonly observations: number;
}

/**
 * Judges which workers are dead by what was heard: a time during which nothing could be heard (Redis was away) counts
 * against nobody.
 */
export interface Silence {
  /** @param beats the last beat of each worker */
  readonly observe: (beats: ReadonlyMap<string, string>, now: number) => void;
  /** Whether a worker is dead; one that was never heard is watched from now on. */
  readonly isDead: (workerId: string, now: number) => boolean;
  /** Workers that were heard and are not known to be dead. */
  readonly alive: (now: number) => readonly string[];
}

export const watchSilence = (): Silence => {
  const heard = new Map<string, Heard>();
  let listenedAt = Number.NEGATIVE_INFINITY;
  const judge = ({ at, observations }: Heard, now: number): boolean =>
    now - at >= deadAfterMs && observations >= minObservations && now - listenedAt < deafAfterMs;
  return {
    observe: (beats, now) => {
      listenedAt = now;
      for (const [id, last] of heard) {
        const isNew = beats.has(id) && beats.get(id) !== last.beat;
        if (now - last.at > forgetAfterMs && !beats.has(id)) heard.delete(id);
        else if (!isNew) heard.set(id, { ...last, observations: last.observations + 1 });
      }
      for (const [id, beat] of beats) {
        if (heard.get(id)?.beat !== beat) heard.set(id, { beat, at: now, observations: 0 });
      }
    },
    isDead: (workerId, now) => {
      const last = heard.get(workerId);
      if (last !== undefined) return judge(last, now);
      heard.set(workerId, { beat: '', at: now, observations: 0 });
      return false;
    },
    alive: (now) => [...heard].flatMap(([id, last]) => (last.beat === '' || judge(last, now) ? [] : [id])),
  };
};
