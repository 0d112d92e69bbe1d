import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { StorageDeps } from './storage.ts';

/** A project whose files are deleted all the time is marked that often by each process. */
const everyMs = 60_000;
const maxRemembered = 10_000;

/**
 * Says that bytes of a project are to be deleted once their grace is over. A mark that is lost delays that by a day at
 * most: then every project is swept.
 */
export const createRemovalMarks = (
  db: Pick<Queryable, 'query'>,
  { log, keepHours }: { readonly log: Pick<Log, 'debug'>; readonly keepHours: number },
  now: () => number = Date.now,
): StorageDeps['markRemoved'] => {
  const marked = new Map<string, number>();
  return (projectId, when) => {
    const mark = `${projectId} ${when ?? ''}`;
    if (now() - (marked.get(mark) ?? 0) < everyMs) return;
    if (marked.size >= maxRemembered) marked.clear();
    marked.set(mark, now());
    db.query(
      `insert into storage_sweeps (project_id, due_at) select id, now() + make_interval(secs => $2) from projects where id = $1
       on conflict (project_id) do update set due_at = least(storage_sweeps.due_at, excluded.due_at)`,
      [projectId, when === 'now' ? 0 : keepHours * 3600 + everyMs / 1000],
    ).catch((error: unknown) => log.debug({ err: error, project_id: projectId }, 'a sweep of files was not noted'));
  };
};
