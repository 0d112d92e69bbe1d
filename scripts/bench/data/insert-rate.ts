import { Client, escapeIdentifier } from 'pg';
import { createProject, signUp } from '../client.ts';
import type { Bench } from '../harness.ts';
import { requiredIn } from '../settings.ts';

const seconds = 2;

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

const triggers = `select tgname from pg_trigger where tgrelid = $1::regclass and starts_with(tgname::text, $2)`;

const keepOnly = async (admin: Client, table: string, unwanted: string): Promise<void> => {
  const { rows } = await admin.query<{ tgname: string }>(triggers, [`public.${table}`, unwanted]);
  for (const { tgname } of rows) await admin.query(`drop trigger ${escapeIdentifier(tgname)} on public.${table}`);
};

/** Three tables alike: `bare` without triggers of the platform, `counted` with those that count rows, `told` with events, too. */
export const insertTables = ['bare', 'counted', 'told'] as const;
export type InsertTable = (typeof insertTables)[number];

const columns = `(id bigint generated always as identity primary key, author int, title text, at timestamptz default now())`;

const prepare = async (admin: Client): Promise<void> => {
  await admin.query(`update plinth.limits set max_rows = 1000000000`);
  await admin.query(`update plinth.outbox_limits set max_rows = 1000000000, max_bytes = 100000000000`);
  for (const table of insertTables) await admin.query(`create table public.${table} ${columns}`);
  await admin.query(`insert into plinth.subscriptions values ('told', 'INSERT')`);
  // What guards the triggers is the platform's own, and makes way here.
  await admin.query('set session_replication_role = replica');
  for (const guard of ['plinth_on_ddl', 'plinth_on_drop']) await admin.query(`alter event trigger ${guard} disable`);
  await keepOnly(admin, 'bare', 'plinth_');
  await keepOnly(admin, 'counted', 'plinth_tell');
  for (const guard of ['plinth_on_ddl', 'plinth_on_drop']) await admin.query(`alter event trigger ${guard} enable`);
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

export interface InsertScene {
  /** Inserts single rows for 2 s; answers how many a second. */
  readonly rate: (table: InsertTable, connections: number) => Promise<number>;
  readonly end: () => Promise<void>;
}

/** A project's database with the tables, and the connections that insert into them. */
export const openInsertScene = async (bench: Bench, connections: number): Promise<InsertScene> => {
  const url = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
  const id = await createProject(url, await signUp(url));
  const database = await databaseNameOf(bench, id);
  const admin = await adminOf(bench, database);
  await prepare(admin);
  const clients = await Promise.all(Array.from({ length: connections }, () => adminOf(bench, database)));
  return {
    rate: async (table, most) => {
      await admin.query('truncate plinth.outbox');
      const began = performance.now();
      const counts = await Promise.all(
        clients.slice(0, most).map((client) => insertUntil(client, table, began + seconds * 1000)),
      );
      return counts.reduce((sum, count) => sum + count, 0) / ((performance.now() - began) / 1000);
    },
    end: async () => {
      await Promise.all([...clients, admin].map((client) => client.end()));
    },
  };
};
