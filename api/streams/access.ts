import { type Reader, readersWithAccess } from '#domain/teams/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { Deps } from '#api/deps.ts';

/** One statement for all streams of the process; the contract gives them 60 s to end. */
const checkEveryMs = 5000;

interface Watched {
  readonly reader: Reader;
  holds: boolean;
}

interface Watch {
  readonly streams: Set<Watched>;
  timer: NodeJS.Timeout | undefined;
}

const watches = new WeakMap<ControlDb, Watch>();

const keyOf = ({ signInId, projectId }: Reader): string => `${signInId} ${projectId}`;

const check = async (db: ControlDb, log: Log, streams: ReadonlySet<Watched>): Promise<void> => {
  // A stream that begins meanwhile is not judged by an answer that cannot know it.
  const checked = [...streams];
  try {
    const readers = new Map(checked.map(({ reader }) => [keyOf(reader), reader]));
    const allowed = new Set((await readersWithAccess(db, [...readers.values()])).map(keyOf));
    for (const watched of checked) watched.holds = allowed.has(keyOf(watched.reader));
  } catch (error) {
    // While the database is away nothing is known; the streams' own time limit still ends them.
    log.warn({ err: error }, 'the access of listeners could not be checked');
  }
};

/** Each check begins a while after the last one has ended, as long as there are streams. */
const checkLater = (db: ControlDb, log: Log, watch: Watch): void => {
  watch.timer = setTimeout(() => {
    // Where all streams have ended there is nothing to check, and the database may be closed.
    if (watch.streams.size === 0) watch.timer = undefined;
    else void check(db, log, watch.streams).finally(() => checkLater(db, log, watch));
  }, checkEveryMs).unref();
};

/**
 * Follows whether a listener's sign-in and membership last.
 * @returns `holds` is false soon after one of them has ended; `forget` when the stream ends
 */
export const watchAccess = (
  { db, log }: Pick<Deps, 'db' | 'log'>,
  { signInId, projectId }: Reader,
): { readonly holds: () => boolean; readonly forget: () => void } => {
  const watch = watches.get(db) ?? { streams: new Set(), timer: undefined };
  watches.set(db, watch);
  const watched: Watched = { reader: { signInId, projectId }, holds: true };
  watch.streams.add(watched);
  if (watch.timer === undefined) checkLater(db, log, watch);
  return { holds: () => watched.holds, forget: () => void watch.streams.delete(watched) };
};
