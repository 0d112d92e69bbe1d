import { readFileSync } from 'node:fs';
import { Client, escapeIdentifier } from 'pg';
import { createProject, signUp } from '../client.ts';
import type { Bench } from '../harness.ts';
import { requiredIn } from '../settings.ts';

const roundMs = 700;

const adminOf = async (bench: Bench, database: string): Promise<Client> => {
  const url = new URL(requiredIn(bench.env, 'DATABASE_URL'));
  url.pathname = `/${database}`;
  const client = new Client({ connectionString: url.toString() });
  await client.connect();
  return client;
};

const databaseNameOf = async (bench: Bench, projectId: string): Promise<string> => {
  const control = new Client({ connectionString: requiredIn(bench.env, 'DATABASE_URL') });
  await control.connect();
  try {
    const { rows } = await control.query<{ db_name: string }>('select db_name from projects where id = $1', [
      projectId,
    ]);
    return rows[0]?.db_name ?? '';
  } finally {
    await control.end();
  }
};

/**
 * Three tables alike: `bare` without triggers of the platform, `reported` whose inserts leave events, `counted` whose
 * inserts leave events and are counted, as it is in a project. And `unheard`: counted, and nobody subscribes.
 */
const insertTables = ['bare', 'told', 'counted', 'unheard'] as const;
export type InsertTable = (typeof insertTables)[number];

const columns = `(id bigint generated always as identity primary key, author int, title text, at timestamptz default now())`;

// The guard of the triggers is the platform's own, and makes way here.
const unguarded = async (admin: Client, work: () => Promise<unknown>): Promise<void> => {
  await admin.query('set session_replication_role = replica');
  for (const guard of ['plinth_on_ddl', 'plinth_on_drop']) await admin.query(`alter event trigger ${guard} disable`);
  await work();
  for (const guard of ['plinth_on_ddl', 'plinth_on_drop']) await admin.query(`alter event trigger ${guard} enable`);
  await admin.query('reset session_replication_role');
};

const withoutTriggers = async (admin: Client, table: InsertTable): Promise<void> => {
  const { rows } = await admin.query<{ name: string }>(
    `select tgname as name from pg_trigger where tgrelid = $1::regclass and starts_with(tgname::text, 'plinth_')`,
    [`public.${table}`],
  );
  for (const { name } of rows) await admin.query(`drop trigger ${escapeIdentifier(name)} on public.${table}`);
};

/** Takes out of the trigger of a table what counts. */
const withoutCount = async (admin: Client, table: InsertTable): Promise<void> => {
  const { rows } = await admin.query<{ name: string; text: string }>(
    `select p.oid::regproc::text as name, pg_get_functiondef(p.oid) as text from pg_trigger t join pg_proc p on p.oid = t.tgfoid
     where t.tgrelid = $1::regclass and t.tgname = 'plinth_insert'`,
    [`public.${table}`],
  );
  const [{ name, text } = { name: '', text: '' }] = rows;
  const rest = text
    .replace(/^ *insert into plinth\.row_deltas values[^;]*;/m, '')
    .replace(/^ {2}if added [^;]* then\n {4}top [\s\S]*?^ {2}end if;\n {2}if top [\s\S]*?^ {2}end if;/m, '');
  if (/row_deltas values|nextval/.test(rest)) throw new Error(`the count was not found in ${text}`);
  await admin.query(rest);
  await admin.query(`alter function ${name}() owner to plinth_triggers`);
};

const prepare = async (admin: Client): Promise<void> => {
  await admin.query(`update plinth.limits set max_rows = 1000000000`);
  await admin.query(`update plinth.outbox_limits set max_rows = 1000000000, max_bytes = 100000000000`);
  for (const table of insertTables) await admin.query(`create table public.${table} ${columns}`);
  await admin.query(`insert into plinth.subscriptions values ('told', 'INSERT'), ('counted', 'INSERT')`);
  await unguarded(admin, async () => {
    await withoutTriggers(admin, 'bare');
    await withoutCount(admin, 'told');
  });
};

/** Time that a backend had on a processor, in µs; NaN where the system does not tell. */
const busyUs = (pid: number): number => {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1000;
  } catch {
    return Number.NaN;
  }
};

const insertUntil = async (client: Client, table: InsertTable, until: number): Promise<number> => {
  let done = 0;
  const statement = {
    name: `insert-${table}`,
    text: `insert into public.${table} (author, title) values ($1, $2) returning id`,
    values: [7, 'a title of some words'],
  };
  while (performance.now() < until) {
    await client.query(statement);
    done += 1;
  }
  return done;
};

interface InsertRate {
  readonly perSecond: number;
  /** The server's time for each row. */
  readonly cpuUs: number;
}

export interface InsertScene {
  /** Inserts single rows for 0.7 s. */
  readonly rate: (table: InsertTable, connections: number) => Promise<InsertRate>;
  readonly end: () => Promise<void>;
}

interface Writer {
  readonly client: Client;
  readonly pid: number;
}

const writerTo = async (bench: Bench, database: string): Promise<Writer> => {
  const client = await adminOf(bench, database);
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return { client, pid: rows[0]?.pid ?? 0 };
};

const measure = async (writers: readonly Writer[], table: InsertTable): Promise<InsertRate> => {
  const busy = (): number => writers.reduce((sum, { pid }) => sum + busyUs(pid), 0);
  const busyBefore = busy();
  const began = performance.now();
  const counts = await Promise.all(writers.map(({ client }) => insertUntil(client, table, began + roundMs)));
  const done = counts.reduce((sum, count) => sum + count, 0);
  return { perSecond: (done / (performance.now() - began)) * 1000, cpuUs: (busy() - busyBefore) / done };
};

/** A project's database with the tables, and the connections that insert into them. */
export const openInsertScene = async (bench: Bench, connections: number): Promise<InsertScene> => {
  const url = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
  const id = await createProject(url, await signUp(url));
  const database = await databaseNameOf(bench, id);
  const admin = await adminOf(bench, database);
  await prepare(admin);
  const writers = await Promise.all(Array.from({ length: connections }, () => writerTo(bench, database)));
  return {
    rate: async (table, max) => {
      await admin.query('truncate plinth.outbox');
      return measure(writers.slice(0, max), table);
    },
    end: async () => {
      await Promise.all([...writers.map(({ client }) => client), admin].map((client) => client.end()));
    },
  };
};
