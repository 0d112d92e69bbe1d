import type { ClientBase } from 'pg';
import { type Once, earlierAnswer, onceAsOwner } from '#domain/database/console/owner-key.ts';
import { runBound } from '#lib/postgres/bound-query.ts';
import { notAllowed } from './refusal.ts';
import { reasonsOnServer } from './server-check.ts';
import type { Allowed } from './verdict.ts';

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
export const applyConcurrently = async (
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
