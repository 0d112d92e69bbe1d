import { randomBytes } from 'node:crypto';
import { Client, escapeIdentifier } from 'pg';
import { controlMigrations } from '#domain/control-schema.ts';
import { migrate } from '#lib/migrate.ts';
import type { Bench } from '../harness.ts';
import { requiredIn } from '../settings.ts';

/** A connection for one piece of work. */
export const withPostgres = async <T>(url: string, work: (client: Client) => Promise<T>): Promise<T> => {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
};

const asAdmin = (bench: Bench, statement: string): Promise<unknown> =>
  withPostgres(requiredIn(bench.env, 'DATABASE_URL'), (client) => client.query(statement));

/** Gives `work` a control database of its own, on the server of the stack: the shards of the stack stay as they are. */
export const onControlDatabase = async <T>(bench: Bench, work: (url: string) => Promise<T>): Promise<T> => {
  const name = `plinth_bench_${randomBytes(6).toString('hex')}`;
  const url = new URL(requiredIn(bench.env, 'DATABASE_URL'));
  url.pathname = `/${name}`;
  await asAdmin(bench, `create database ${escapeIdentifier(name)} template template0`);
  try {
    await migrate(url.toString(), controlMigrations);
    return await work(url.toString());
  } finally {
    await asAdmin(bench, `drop database if exists ${escapeIdentifier(name)} with (force)`);
  }
};
