import { Client } from 'pg';
import { StartError } from '../errors.ts';

/** A database of its own on a server that was given, so that tests never touch what is in the one it names. */
export interface ThrowawayDatabase {
  readonly url: string;
  readonly drop: () => Promise<void>;
}

const withClient = async (url: string, sql: string): Promise<void> => {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5000 });
  try {
    await client.connect();
    await client.query(sql);
  } catch (error) {
    throw new StartError(
      `The server in DATABASE_URL did not do \`${sql}\`: ${error instanceof Error ? error.message : ''}`,
    );
  } finally {
    await client.end().catch(() => undefined);
  }
};

/** @throws {StartError} when the server cannot be reached or forbids it */
export const createThrowawayDatabase = async (serverUrl: string): Promise<ThrowawayDatabase> => {
  const name = `plinth_test_${process.pid}_${Date.now().toString(36)}`;
  await withClient(serverUrl, `create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => withClient(serverUrl, `drop database if exists ${name} with (force)`) };
};
