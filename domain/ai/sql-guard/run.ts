import { type ClientBase, DatabaseError } from 'pg';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
import { consoleRowsText, describeStatement, readColumns, runCapped } from '#domain/database/console/capped-query.ts';
import { type FenceDb, type StoppedBy, inCallersFence } from '#domain/database/console/fence.ts';
import { type Once, earlierAnswer, onceAsOwner } from '#domain/database/console/owner-key.ts';
import { connectionLost, sessionEnded, sqlError } from '#domain/database/console/sql-error.ts';
import { type ChangeListeners, noteChange } from '#domain/database/database.ts';
import { Refusal, ServiceError } from '#lib/errors.ts';
import { runBound } from '#lib/postgres/bound-query.ts';
import { type Allowed, type Reason, type UsedNames, type Verdict, checkSelectSql } from './sql-guard.ts';
import { queryFunctions } from './functions.ts';

/** `details` are the reasons, each with its rule, message and place. */
const notAllowed = (reasons: readonly Reason[]): ServiceError =>
  new ServiceError('sql_not_allowed', reasons[0]?.message ?? 'The statement is not allowed.', {
    details: reasons,
    hint: 'docs/security/generated-sql.md tells what is allowed, and why.',
  });

/** @throws {ServiceError} `sql_not_allowed` */
const requireAllowed = (verdict: Verdict): Allowed => {
  if (!verdict.allowed) throw notAllowed(verdict.reasons);
  return verdict;
};

/**
 * Returns the caller's error for a statement that failed in its session.
 * @param lost what to do when the connection broke; left out when nobody knows whether the statement took effect
 */
export const ranFailure = (error: unknown, sql: string, lost?: string): unknown => {
  if (error instanceof Refusal) return error;
  if (!(error instanceof DatabaseError)) {
    if (lost === undefined) return connectionLost(error);
    const message = 'The connection to the database broke while the statement ran.';
    return new ServiceError('dependency_unavailable', message, { hint: lost, cause: error });
  }
  // The watchdog of the servers; its own words would be those of a shutdown.
  if (error.code === '57P01' && error.severity === 'FATAL') {
    return new DataError(400, '53200', sessionEnded, {
      hint: 'Nothing was changed. If the statement does little, send it again: the database may have been restarted.',
    });
  }
  return sqlError(error, sql);
};

/**
 * Functions and operators of the project under names of the server's own, and what `x.name` would call: the parser
 * cannot know. What extensions brought is theirs.
 */
const namesSql = `
  select 'function' as kind, p.proname::text as name from pg_proc p
  where p.pronamespace = 'public'::regnamespace and p.proname = any($1)
    and not exists (
      select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  union
  select 'field', p.proname::text from pg_proc p
  where p.proname = any($2) and (p.provariadic <> 0 or 1 between p.pronargs - p.pronargdefaults and p.pronargs)
    and case when p.pronamespace = 'pg_catalog'::regnamespace
      then not p.proname = any($4) and (p.provolatile = 'v' or p.proname ~ '^(pg_|current_setting$|lo_)')
      else p.pronamespace = 'public'::regnamespace end
  union
  select 'operator', o.oprname::text from pg_operator o
  where o.oprnamespace = 'public'::regnamespace and o.oprname = any($3)
    and not exists (
      select from pg_depend d where d.classid = 'pg_operator'::regclass and d.objid = o.oid and d.deptype = 'e')
  union
  select 'target', c.relname::text from pg_class c
  where c.relnamespace = 'public'::regnamespace and c.relname = any($5) and c.relkind not in ('r', 'p')
  order by 1, 2`;

type Kind = 'function' | 'field' | 'operator' | 'target';

const reasons: Readonly<Record<Kind, (name: string) => Reason>> = {
  function: (name) => ({
    rule: 'function',
    message:
      `The project has a function ${name} of its own, which may be called instead of the server’s. ` +
      `Write pg_catalog.${name}.`,
  }),
  field: (name) => ({
    rule: 'function',
    message: `“.${name}” may call the function ${name}, which is not among those that are allowed.`,
  }),
  operator: (name) => ({
    rule: 'operator',
    message:
      `The project has an operator ${name} of its own, which may be called instead of the server’s. ` +
      `Write OPERATOR(pg_catalog.${name}), and no CASE x WHEN, BETWEEN, IN (SELECT …) or USING that stands for it.`,
  }),
  target: (name) => ({
    rule: 'statement',
    message: `${name} is no table: views, sequences, indexes and the like cannot be changed here.`,
  }),
};

/**
 * Completes a verdict with the database's own check, in the transaction in which the statement is to run.
 * @returns why it is refused all the same; empty: it is not
 */
const reasonsOnServer = async (
  client: ClientBase,
  { functions, fields, operators, targets }: UsedNames,
): Promise<readonly Reason[]> => {
  if (functions.length + fields.length + operators.length + targets.length === 0) return [];
  // Our own words mean what they say, whatever the project has made.
  await client.query('set local search_path = pg_catalog');
  const values = [functions, fields, operators, [...queryFunctions], targets];
  const { rows } = await client.query<{ kind: Kind; name: string }>(namesSql, values);
  await client.query('set local search_path = public');
  return rows.map(({ kind, name }) => reasons[kind](name));
};

const selectTimeoutMs = 5000;
const maxRows = 1000;

interface SelectedRows {
  /** JSON text: an array of objects. */
  readonly text: string;
  readonly count: number;
  /** There were more than 1,000 rows, or 16 MB. */
  readonly truncated: boolean;
}

const readIn = async (client: ClientBase, sql: string): Promise<SelectedRows> => {
  const { uses } = requireAllowed(checkSelectSql(sql));
  await client.query('begin transaction read only');
  const reasons = await reasonsOnServer(client, uses);
  if (reasons.length > 0) throw notAllowed(reasons);
  const columns = await readColumns(client, (await describeStatement(client, sql)).columns);
  const ran = await runCapped(client, [], true, maxRows);
  const { text, count } = await consoleRowsText(columns, ran);
  return { text, count, truncated: ran.truncated || count < ran.rows.length };
};

/**
 * Runs a query that a model has written, if the guard allows it: under the role that may only SELECT, READ ONLY, at
 * most 5 s and 1,000 rows, in a session that is closed afterwards, so that nothing is ever committed.
 * @throws {ServiceError} `sql_not_allowed`, `dependency_unavailable`
 * @throws {DataError} with the SQLSTATE as code; 57014 when it took too long
 */
export const runGeneratedSelect = async (
  tenantDb: FenceDb,
  { projectId, sql }: { readonly projectId: string; readonly sql: string },
  signal: AbortSignal,
): Promise<SelectedRows> => {
  // Before a connection is taken.
  requireAllowed(checkSelectSql(sql));
  const fence = { projectId, role: 'reader', timeoutMs: selectTimeoutMs, signal } as const;
  return inCallersFence(tenantDb, fence, async (client, stoppedBy) => {
    try {
      return await readIn(client, sql);
    } catch (error) {
      if (stoppedBy() === 'caller') throw new CallerGone('the caller has gone');
      if (stoppedBy() === 'watchdog') throw new DataError(504, '57014', 'The query took longer than 5 s.');
      throw ranFailure(error, sql, 'It changes nothing. Send it again.');
    }
  });
};

/** Together they stay within the 30 s of an applied statement. */
const buildTimeoutMs = 24_000;
const dropTimeoutMs = 5000;

const invalidSql = `
  select pg_catalog.format('%I.%I', n.nspname, c.relname) as name
  from pg_catalog.pg_index i
  join pg_catalog.pg_class c on c.oid = i.indexrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_class t on t.oid = i.indrelid
  where not i.indisvalid and t.relnamespace = 'public'::regnamespace and t.relname = any($1)`;

const invalidOn = async (client: ClientBase, tables: readonly string[]): Promise<readonly string[]> => {
  const { rows } = await client.query<{ name: string }>(invalidSql, [tables]);
  return rows.map(({ name }) => name);
};

/** An index whose build failed slows down each write and serves no query. */
const dropLeftover = async (
  client: ClientBase,
  tables: readonly string[],
  before: readonly string[],
): Promise<void> => {
  await client.query(`set statement_timeout = ${dropTimeoutMs}`);
  const left = (await invalidOn(client, tables)).filter((name) => !before.includes(name));
  for (const name of left) await client.query(`drop index if exists ${name}`);
};

const build = async (client: ClientBase, sql: string, tables: readonly string[]): Promise<void> => {
  const before = await invalidOn(client, tables);
  await client.query(`set statement_timeout = ${buildTimeoutMs}`);
  try {
    await runBound(client, { sql, params: [] });
  } catch (error) {
    // The session may be gone as well; then the index stays, marked as invalid.
    await dropLeftover(client, tables, before).catch(() => undefined);
    throw error;
  }
};

/**
 * Runs CREATE INDEX CONCURRENTLY, which no transaction may hold: the key is recorded after it. A process that dies
 * between the two leaves the index without the key, and a repeated request then learns that the index exists.
 */
const applyConcurrently = async (
  client: ClientBase,
  { sql, once }: { readonly sql: string; readonly once: Once | undefined },
  { uses }: Allowed,
): Promise<void> => {
  await client.query('begin');
  const earlier = once === undefined ? null : await earlierAnswer(client, once);
  const reasons = await reasonsOnServer(client, uses);
  await client.query('rollback');
  if (earlier !== null) return;
  if (reasons.length > 0) throw notAllowed(reasons);
  await client.query('set search_path = public');
  await build(client, sql, uses.targets);
  await client.query('begin');
  await onceAsOwner(client, once, () => Promise.resolve('{}'));
  await client.query('commit');
};

export interface ApplyDeps extends ChangeListeners {
  readonly tenantDb: FenceDb;
}

export interface ApplyRequest {
  readonly projectId: string;
  readonly sql: string;
  /** A person has seen the statement and wants it. */
  readonly approved: boolean;
  readonly once?: Once | undefined;
  /** `checkSchemaSql` or `checkRlsSql`. */
  readonly check: (sql: string) => Verdict;
}

interface Applied extends Pick<Allowed, 'command'> {
  readonly applied: true;
  readonly sql: string;
  readonly objects: { readonly tables: string[]; readonly policies: string[] };
}

const applyTimeoutMs = 30_000;
const lockTimeoutMs = 5000;

const failureOf = (error: unknown, sql: string, stoppedBy: StoppedBy): unknown => {
  if (stoppedBy === 'caller') return new CallerGone('the caller has gone');
  if (stoppedBy === 'watchdog') return new DataError(504, '57014', 'The change took too long and was undone.');
  if (!(error instanceof DatabaseError) || error.code !== '55P03') return ranFailure(error, sql);
  return new ServiceError('conflict', 'The table is in use.', { hint: 'Nothing was changed. Try again.' });
};

const applyIn = async (client: ClientBase, sql: string, { uses }: Allowed): Promise<void> => {
  const reasons = await reasonsOnServer(client, uses);
  if (reasons.length > 0) throw notAllowed(reasons);
  // Not for the key: who has it may take longer.
  await client.query(`set lock_timeout = ${lockTimeoutMs}`);
  // By the extended protocol, which takes one statement, whatever the parser saw.
  await runBound(client, { sql, params: [] });
};

const requireApproval = (approved: boolean): void => {
  if (approved) return;
  throw new ServiceError('approval_required', 'Nothing is applied before somebody has approved of it.', {
    hint: 'Show the statement to a person, and send it again with "approved": true.',
  });
};

/**
 * Applies one statement that the guard allows, once for its key, as the project's owner: in a transaction of a session
 * of its own (CREATE INDEX CONCURRENTLY without one), for at most 30 s, and 5 s of waiting for a lock (interface, "AI
 * limits" 3 to 5; contract, section 8).
 * @throws {ServiceError} `approval_required`, `sql_not_allowed`, `conflict`, `idempotency_mismatch`
 * @throws {DataError} with the SQLSTATE as code; `plan_limit_exceeded`
 */
export const applyGeneratedSql = async (
  deps: ApplyDeps,
  { projectId, sql, approved, once, check }: ApplyRequest,
  signal: AbortSignal,
): Promise<Applied> => {
  requireApproval(approved);
  const verdict = requireAllowed(check(sql));
  const fence = { projectId, role: 'owner', timeoutMs: applyTimeoutMs, signal } as const;
  await inCallersFence(deps.tenantDb, fence, async (client, stoppedBy) => {
    try {
      if (verdict.concurrently) return await applyConcurrently(client, { sql, once }, verdict);
      await client.query('begin');
      await onceAsOwner(client, once, async () => {
        await applyIn(client, sql, verdict);
        // The outcome is recorded by the statement that stores the idempotency key.
        return '{}';
      });
      await client.query('commit');
    } catch (error) {
      throw failureOf(error, sql, stoppedBy());
    }
  });
  noteChange(deps, projectId, { schema: true, rows: true });
  const { tables, policies } = verdict.objects;
  return { applied: true, command: verdict.command, sql, objects: { tables: [...tables], policies: [...policies] } };
};
