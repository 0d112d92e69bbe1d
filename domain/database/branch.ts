import type { ClientBase } from 'pg';
import type { Projects } from '#domain/projects/projects.ts';
import { type Project, findProject } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { withinBytes } from '#lib/postgres/within-bytes.ts';
import { type Fence, inFence } from './console/fence.ts';
import { runStatements } from './migrations.ts';
import { type SchemaParts, dumpSchema, dumpSchemaParts } from './schema-sql/schema-sql.ts';
import { insertsOf } from './script/copied-rows.ts';

/*
 * A branch begins with the schema of its parent, and with its rows when they were asked for. It is a copy by statements,
 * made in one transaction as the branch's own owner: a copy of the files would need an empty parent without sessions,
 * and its objects would be another project's.
 */

/** Rows are copied by statements, some 20 MB a second. */
export const maxBranchBytes = 100 * 1024 * 1024;

const copyTimeoutMs = 100_000;
const mib = 1024 * 1024;
const rowsAtOnce = 500;
/** A batch of rows is held as text, several times over: compressed, 100 MB of a database can be any number of bytes. */
const batchBytes = 4 * mib;
const maxRowBytes = 32 * mib;
/** The names of the migrations that were applied, with their checksums. */
const maxRecordedBytes = 16 * mib;

export interface BranchDeps {
  readonly db: Queryable;
  readonly projects: Pick<Projects, 'tenantDb'>;
}

const tables = `
  select c.oid::regclass::text as name,
    (select string_agg(quote_ident(a.attname), ', ' order by a.attnum) from pg_attribute a
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns
  from pg_class c
  where c.relkind = 'r' and c.relnamespace = any ($1::oid[])
    and not exists (select from pg_depend e where e.classid = 'pg_class'::regclass and e.objid = c.oid and e.deptype = 'e')
  order by 1`;

const sequences = `
  select c.oid::regclass::text as name, s.last_value::text as value
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_sequences s on s.schemaname = n.nspname and s.sequencename = c.relname
  where c.relkind = 'S' and c.relnamespace = any ($1::oid[]) and s.last_value is not null order by 1`;

interface Table {
  readonly name: string;
  readonly columns: string | null;
}

const rowTooLarge = (table: string): ServiceError =>
  new ServiceError(
    'payload_too_large',
    `A row of ${table} has more than ${maxRowBytes / 1024 / 1024} MB as text, and such rows are not copied.`,
    { hint: 'Make the branch without its rows, and bring rows by a seed.' },
  );

/** Values as the server writes them. A cast to text would not do: the project may have made one of its own. */
const asWritten = { getTypeParser: () => (value: string) => value };

/** The bytes of the largest row as text; by the server's own functions, since the project may have made casts. */
const maxRow = async (from: ClientBase, name: string): Promise<number> => {
  const { rows } = await from.query<{ bytes: number }>(
    `select coalesce(pg_catalog.max(pg_catalog.octet_length(pg_catalog.textin(pg_catalog.record_out(r.*)))), 0) as bytes
     from only ${name} r`,
  );
  return rows[0]?.bytes ?? 0;
};

/**
 * Reads the rows by a cursor, as many at a time as fit into a batch.
 * @throws {ServiceError} `payload_too_large` for a row that is too large by itself
 */
const copyTable = async (from: ClientBase, to: ClientBase, { name, columns }: Table): Promise<void> => {
  if (columns === null) return;
  const largest = await maxRow(from, name);
  if (largest > maxRowBytes) throw rowTooLarge(name);
  const atOnce = Math.max(1, Math.min(rowsAtOnce, Math.floor(batchBytes / Math.max(1, largest))));
  await from.query(`declare rows_of_branch no scroll cursor for select ${columns} from only ${name}`);
  for (;;) {
    const { rows } = await from.query<(string | null)[]>({
      text: `fetch ${atOnce} from rows_of_branch`,
      rowMode: 'array',
      types: asWritten,
    });
    for (const insert of insertsOf({ target: `${name} (${columns})`, rows })) await to.query(insert.sql, insert.values);
    if (rows.length < atOnce) break;
  }
  await from.query('close rows_of_branch');
};

const fenceOf = (projectId: string): Fence => ({
  projectId,
  role: 'owner',
  timeoutMs: copyTimeoutMs,
  signal: new AbortController().signal,
});

/**
 * The rows of one moment. As the project's own role, in a fence: nothing that it made runs as the platform.
 */
const copyRows = (deps: BranchDeps, parent: Project, to: ClientBase, schemas: readonly number[]): Promise<void> =>
  inFence(deps.projects.tenantDb, fenceOf(parent.id), async (from) => {
    // Where a policy would hide rows from the owner, too, it is an error and not a part of the rows.
    await from.query(
      `begin isolation level repeatable read read only; set local search_path = ''; set local row_security = off`,
    );
    const found = await from.query<Table>(tables, [schemas]);
    for (const table of found.rows) await copyTable(from, to, table);
    const last = await from.query<{ name: string; value: string }>(sequences, [schemas]);
    for (const { name, value } of last.rows) {
      await to.query('select pg_catalog.setval($1::pg_catalog.regclass, $2::pg_catalog.int8, true)', [name, value]);
    }
    await from.query('rollback');
  });

/**
 * Whether a statement adds a foreign key to users. In two steps: one expression for both would look from each text like
 * the first part to the end.
 */
const refersToUsers = (sql: string): boolean => {
  const key = /^alter table /i.test(sql) ? sql.search(/ foreign key /i) : -1;
  return key !== -1 && / references auth\.users\b/i.test(sql.slice(key));
};

/** Users are not copied: a reference to one holds for the rows that come. */
export const afterRows = ({ after }: Pick<SchemaParts, 'after'>): string[] =>
  after.map((sql) => (refersToUsers(sql) && !/ not valid$/i.test(sql) ? `${sql} not valid` : sql));

interface Recorded {
  readonly name: string;
  readonly checksum: string;
  readonly duration_ms: number;
}

const refreshAll = `do $$ declare name text; begin
  for name in select c.oid::regclass from pg_class c where c.relkind = 'm' and c.relispopulated
    and pg_get_userbyid(c.relowner) = current_user loop
    execute format('refresh materialized view %s', name);
  end loop; end $$`;

const fill = async (
  deps: BranchDeps,
  { parent, branch, parts, recorded }: { parent: Project; branch: Project; parts: SchemaParts; recorded: Recorded[] },
  client: ClientBase,
): Promise<void> => {
  await client.query('begin');
  await runStatements(client, [parts.preamble, ...parts.before]);
  if (branch.branch_rows) await copyRows(deps, parent, client, parts.schemas);
  await runStatements(client, branch.branch_rows ? afterRows(parts) : parts.after);
  if (branch.branch_rows) await client.query(refreshAll);
  for (const { name, checksum, duration_ms } of recorded) {
    await client.query('select plinth_migrations.record($1, $2, $3)', [name, checksum, duration_ms]);
  }
  await client.query('commit');
};

const recordedIn = (projects: BranchDeps['projects'], projectId: string): Promise<Recorded[]> =>
  projects.tenantDb.use(projectId, 'reader', async (client) => {
    const sql = 'select name, checksum, duration_ms from plinth_migrations.applied order by position';
    return (await withinBytes(client, maxRecordedBytes, () => client.query<Recorded>(sql))).rows;
  });

/** Whether an earlier run, which died after it, has filled the branch: what it writes is one transaction. */
const isFilled = async ({ tenantDb }: BranchDeps['projects'], { id }: Project, parts: SchemaParts): Promise<boolean> =>
  (await dumpSchema(tenantDb, id)).trim() !== parts.preamble.trim() || (await recordedIn({ tenantDb }, id)).length > 0;

/**
 * Copies the parent's schema into a new branch, and its rows when the branch was made so: all of it or nothing.
 * @throws {ServiceError} `payload_too_large` when rows are too large to be copied
 */
export const fillBranch = async (deps: BranchDeps, branch: Project): Promise<void> => {
  const { db, projects } = deps;
  const parent = branch.branch_of === null ? undefined : await findProject(db, branch.branch_of);
  if (parent === undefined || parent.deleted_at !== null) throw new Error('the project of a branch is deleted');
  const parts = await dumpSchemaParts(projects.tenantDb, parent.id);
  if (await isFilled(projects, branch, parts)) return;
  const recorded = await recordedIn(projects, parent.id);
  await inFence(projects.tenantDb, fenceOf(branch.id), (client) =>
    fill(deps, { parent, branch, parts, recorded }, client),
  );
};
