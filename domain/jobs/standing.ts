import type { Gate, Place } from '#queues/gate/types.ts';
import { type JobRow, refOf } from './store.ts';

/** Why a job waits, and its place among the waiting jobs of its project (1-based; null when it waits for a time). */
export interface Standing {
  readonly position: number | null;
  readonly reason: NonNullable<Place['reason']> | 'retry_backoff';
}

const waitsForItsTime = (row: JobRow): boolean => row.next_run_at !== null;

const standingOf = (row: JobRow, place: Place | undefined): Standing | null => {
  if (row.status !== 'queued') return null;
  if (waitsForItsTime(row)) return { position: null, reason: 'retry_backoff' };
  // One that was handed over, or is about to be found by the gate, is next.
  return place ? { position: place.position ?? 1, reason: place.reason ?? 'queue' } : null;
};

/** Where jobs stand in line, in their order; null for those that do not wait, and for all while Redis is away. */
export const placesWith =
  (gate: Pick<Gate, 'places'>) =>
  async (rows: readonly JobRow[]): Promise<readonly (Standing | null)[]> => {
    const waiting = rows.filter((row) => row.status === 'queued' && !waitsForItsTime(row)).map(refOf);
    // It is returned beside the job: an unavailable Redis must not keep anybody from reading rows.
    const places = waiting.length === 0 ? [] : await gate.places(waiting).catch(() => []);
    const byId = new Map(waiting.map(({ id }, i) => [id, places[i]]));
    return rows.map((row) => standingOf(row, byId.get(row.id)));
  };
