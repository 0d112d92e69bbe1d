import type { ClientBase } from 'pg';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { generateSchema, inSnapshot, preamble } from './generate.ts';
import { dumpByProgram } from './pg-dump.ts';
import { OutputTooLarge } from './run-program.ts';
import { stopQuery } from '#domain/data-api/stop-query.ts';

export interface SchemaSqlOptions {
  readonly tenantDb: Pick<ProjectDb, 'use' | 'endSession' | 'login'>;
  /** Aborted when no caller waits any more: a running program is ended. */
  readonly signal: AbortSignal;
}

const timeoutMs = 30_000;
const maxBytes = 32 * 1024 * 1024;

const tooLarge = (): ServiceError => new ServiceError('payload_too_large', 'The schema is larger than 32 MB as SQL.');

const failed = (error: unknown, { signal }: SchemaSqlOptions): unknown => {
  if (!(error instanceof Error)) return error;
  if (error === signal.reason) return new CallerGone('the caller has gone');
  if (error instanceof OutputTooLarge) return tooLarge();
  return Reflect.get(error, 'code') === '57014' || error.name === 'TimeoutError'
    ? new DataError(504, '57014', `Reading the schema took more than ${timeoutMs / 1000} s.`)
    : error;
};

/** Also ends a dump that a lock delays beyond its own time-out. */
const watched = async <T>(
  { tenantDb }: SchemaSqlOptions,
  running: { readonly projectId: string; readonly client: ClientBase },
  work: () => Promise<T>,
): Promise<T> => {
  const ended = new AbortController();
  const overdue = setTimeout(() => void stopQuery(tenantDb, { ...running, ended: ended.signal }), 2 * timeoutMs);
  try {
    return await work();
  } finally {
    clearTimeout(overdue);
    ended.abort();
  }
};

/**
 * The schema of a project's database as SQL that recreates it in an empty project: all but rows, owners and the
 * platform's own objects. By pg_dump where this machine has one for the server's version, else by our own code, which
 * lists at the top what it leaves out.
 * @throws {DataError} 57014 after 30 s
 * @throws {ServiceError} `payload_too_large` over 32 MB
 */
export const dumpSchema = (options: SchemaSqlOptions, projectId: string): Promise<string> =>
  options.tenantDb.use(projectId, 'owner', async (client) => {
    const work = (): Promise<string> =>
      inSnapshot(client, timeoutMs, async (catalog) => {
        const login = await options.tenantDb.login(projectId, 'owner');
        const dumped = await dumpByProgram(catalog, { login, signal: options.signal, timeoutMs, maxBytes });
        return dumped ?? `${preamble}\n\n${await generateSchema(catalog)}`;
      });
    const sql = await watched(options, { projectId, client }, work).catch((error: unknown) => {
      throw failed(error, options);
    });
    if (Buffer.byteLength(sql) > maxBytes) throw tooLarge();
    return sql;
  });
