import { type ClientBase, DatabaseError } from 'pg';
import type { Project } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import { createFairPermits } from '#lib/fair-permits.ts';
import { tenantRoles } from '#lib/tenant-db.ts';
import { roleName } from '#domain/database-servers/names.ts';
import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';

interface SlowQuery {
  /** With `$1`, `$2`, … for the values. */
  readonly query: string;
  readonly calls: number;
  readonly total_ms: number;
  readonly mean_ms: number;
  readonly max_ms: number;
  readonly rows: number;
}

export interface SlowQueries {
  readonly queries: SlowQuery[];
  readonly total: number;
}

/** The library is not loaded, not installed, or not the platform's to see. */
const lacking = new Set(['55000', '0A000', '58P01', '42501', '42704', '42883', '42P01']);

const schema = 'plinth_statistics';

const viewSql = `select quote_ident(n.nspname) || '.pg_stat_statements' as view
  from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_stat_statements'`;

// The same number on every server.
const extensionLock = 7_245_033;

// In the maintenance database, which no project may enter. An extension lies in one schema: it may be there already.
const findView = async (admin: ClientBase): Promise<string> => {
  const known = (await admin.query<{ view: string }>(viewSql)).rows[0];
  if (known) return known.view;
  await admin.query(`begin; select pg_advisory_xact_lock(${extensionLock}); create schema if not exists ${schema};
    create extension if not exists pg_stat_statements schema ${schema}; commit`);
  return `${schema}.pg_stat_statements`;
};

// Only of these the server takes the values out; utility commands it keeps as they were, passwords included. What asks
// for the platform's own objects is the platform's.
const shown = String.raw`s.query ~* '^(\s|\(|--[^\n]*\n|/\*.*?\*/)*(select|insert|update|delete|merge|with|values|table)\y'
  and s.query not like '%plinth%' and s.query !~ '\ypg_(catalog|class|attribute|type|prepared_statements)\y'`;

const maxTextLength = 10_000;

const querySql = (view: string): string => `
  with own as (
    select left(s.query, ${maxTextLength}) as query, sum(s.calls)::float8 as calls, sum(s.total_exec_time) as total_ms,
      sum(s.total_exec_time) / greatest(sum(s.calls), 1)::float8 as mean_ms, max(s.max_exec_time) as max_ms,
      sum(s.rows)::float8 as rows
    from ${view} s
    where s.dbid = (select oid from pg_database where datname = $1)
      and s.userid in (select oid from pg_roles where rolname = any ($2)) and ${shown}
    group by 1
  )
  select (select count(*)::int from own) as total, (select coalesce(json_agg(page), '[]') from (
    select query, calls, round(total_ms::numeric, 3)::float8 as total_ms, round(mean_ms::numeric, 3)::float8 as mean_ms,
      round(max_ms::numeric, 3)::float8 as max_ms, rows
    from own order by total_ms desc, query limit $3 offset $4) page) as queries`;

type StatisticsOf = Pick<Project, 'server_id' | 'db_name' | 'ref'>;

interface Page {
  readonly limit: number;
  readonly offset: number;
}

const readSlowQueries = async (
  servers: Pick<DatabaseServers, 'admin'>,
  project: StatisticsOf,
  { limit, offset }: Page,
): Promise<SlowQueries> => {
  const admin = await (await servers.admin(project.server_id)).connect();
  const roles = tenantRoles.map((kind) => roleName(project.ref, kind));
  let clean = false;
  try {
    const sql = querySql(await findView(admin));
    const { rows } = await admin.query<SlowQueries>(sql, [project.db_name, roles, limit, offset]);
    clean = true;
    return rows[0] ?? { queries: [], total: 0 };
  } catch (error) {
    if (!(error instanceof DatabaseError) || !lacking.has(error.code ?? '')) throw error;
    throw new ServiceError('feature_unavailable', 'The database server keeps no statistics of statements.', {
      hint: 'It needs shared_preload_libraries = pg_stat_statements.',
      cause: error,
    });
  } finally {
    // It may be in a transaction that failed.
    admin.release(!clean);
  }
};

const refusal = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'The statistics of statements are read too often just now.', {
    headers: { 'Retry-After': '2' },
  });

/**
 * The server reads the texts of all projects' statements for each of these, over one of the platform's few connections,
 * by which it also ends what runs too long.
 */
const permits = createFairPermits({ total: 2, each: 1, maxWaiting: 4, waitMs: 10_000, refusal });

/**
 * Lists the statements that took the project's database longest in total, since the server last reset its statistics:
 * those of the project's own roles, without their values.
 * @throws {ServiceError} `feature_unavailable` where the server has no pg_stat_statements; `dependency_unavailable` when
 * too many ask
 */
export const slowQueries = async (
  servers: Pick<DatabaseServers, 'admin'>,
  project: StatisticsOf,
  page: Page,
): Promise<SlowQueries> => {
  await permits.acquire(project.ref);
  try {
    return await readSlowQueries(servers, project, page);
  } finally {
    permits.release(project.ref);
  }
};
