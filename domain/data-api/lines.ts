import type { ProjectDb } from '#domain/projects/project-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { lowerPriority } from '#lib/postgres/lower-priority.ts';
import { type Bound, type PipelineLimits, runPipeline } from '#lib/postgres/pipeline.ts';
import type { DataCaller, DataRun, LinesRequest } from './data-api.ts';
import { loginOf, preludeOf } from './prelude.ts';
import { pieceBytes } from './sql/sql.ts';
import { whileCallerWaits } from './stop-query.ts';

/** Readings of one project at a time, of different people: each holds a session and a snapshot. */
const maxOfProject = 3;
/** The server keeps all versions of rows that such a snapshot may still see: it must not stay for hours. */
const maxMs = 15 * 60_000;

const begin: Bound = { text: 'begin isolation level repeatable read, read only', params: [] };
const rollback: Bound = { text: 'rollback', params: [] };

// Locks of the transaction: they end with it, in whatever process it runs, and in whatever way it ends.
const takePlace = `select
  pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtext('plinth lines'), pg_catalog.hashtext($1))::text,
  (select n from pg_catalog.generate_series(1, ${maxOfProject}) n
   where pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtext('plinth lines of all'), n) limit 1)::text`;

const fetchPiece = `select body, lines from plinth_api.fetch_lines('plinth_lines', $1, ${pieceBytes})`;

const refusal = (isOwn: boolean): ServiceError =>
  new ServiceError(
    'too_many_calls',
    isOwn ? 'An export of yours is under way in this project.' : 'Other members export from this project just now.',
    {
      hint: isOwn
        ? 'Wait for its end, or cancel it: one at a time.'
        : `Try again when one of theirs has ended: ${maxOfProject} run at a time.`,
      headers: { 'Retry-After': '10' },
    },
  );

const tooLong = (): ServiceError =>
  new ServiceError('request_timeout', `The export took more than ${maxMs / 60_000} minutes and was ended.`, {
    hint: 'Export fewer rows at a time with a filter, or make a dump of the database.',
  });

export interface LinesDeps {
  readonly tenantDb: Pick<ProjectDb, 'lease' | 'endSession'>;
  readonly limits: (projectId: string) => PipelineLimits;
}

type Ask = (statements: readonly Bound[]) => ReturnType<typeof runPipeline>;

/** Begins the transaction whose locks are the places. @throws {ServiceError} `too_many_calls` */
const beginInPlace = async (ask: Ask, userId: string): Promise<void> => {
  const [, [[own, place] = []] = []] = await ask([begin, { text: takePlace, params: [userId] }]);
  if (own !== 'true') throw refusal(true);
  if (place === null) throw refusal(false);
};

/** The next lines; null at the end. */
const nextPiece = async (ask: Ask, separator: string): Promise<string | null> => {
  const [[[body, lines] = []] = []] = await ask([{ text: fetchPiece, params: [separator] }]);
  return lines === '0' ? null : (body ?? null);
};

/** See `LinesDb.lines`. A client that takes nothing for a minute loses its session, which sits idle in a transaction. */
export const readLines = async function* readLines(
  { tenantDb, limits }: LinesDeps,
  { caller, run }: { readonly caller: DataCaller; readonly run: DataRun },
  { sql, separator, userId }: LinesRequest,
): AsyncGenerator<string, void> {
  const { projectId } = caller;
  const until = performance.now() + maxMs;
  const { client, giveBack } = await tenantDb.lease(projectId, loginOf(caller));
  const ask: Ask = (statements) =>
    whileCallerWaits(tenantDb, { projectId, client, signal: run.signal }, () =>
      runPipeline(client, statements, limits(projectId)),
    );
  try {
    await lowerPriority(client);
    await beginInPlace(ask, userId);
    const opened = { text: `declare plinth_lines no scroll cursor for ${sql.text}`, params: sql.params };
    await ask([...preludeOf(caller, run), opened]);
    for (let piece = await nextPiece(ask, separator); piece !== null; piece = await nextPiece(ask, separator)) {
      yield piece;
      if (performance.now() > until) throw tooLong();
    }
  } finally {
    // The place is free when the caller has the end: a session that is only closed lasts a little longer.
    if (!run.signal.aborted) await runPipeline(client, [rollback], limits(projectId)).catch(() => undefined);
    // Not lent again: its priority is low, and SQL of the project may have left something in the session.
    giveBack(false);
  }
};
