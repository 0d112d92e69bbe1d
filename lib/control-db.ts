import { Client, type ClientConfig, DatabaseError, Pool, type PoolClient, type QueryResultRow, types } from 'pg';
import { connectTimes } from './connect-times.ts';
import { giveUpAfter } from './lag-aware-timer.ts';
import type { Log } from './log.ts';
import { lowerPriority } from './postgres/lower-priority.ts';
import { createSilenceWatch } from './silence-watch.ts';

// bigint counts stay exact up to 2^53, which is beyond anything that we count; numeric stays text.
types.setTypeParser(types.builtins.INT8, Number);

/** Runs SQL: the pool or one transaction. Statements with a `name` are prepared once per connection. */
export interface Queryable {
  readonly query: <Row extends QueryResultRow>(
    sql: string,
    values?: readonly unknown[],
    name?: string,
  ) => Promise<Row[]>;
}

/** A transaction: everything in it is kept, or nothing. */
export interface Tx extends Queryable {
  readonly kind: 'transaction';
}

export interface ControlDb extends Queryable {
  /**
   * Runs `work` in one transaction, rolled back when it throws.
   * @param settings kept as transaction-local settings, readable by triggers with `current_setting`
   */
  readonly transaction: <T>(work: (tx: Tx) => Promise<T>, settings?: Readonly<Record<string, string>>) => Promise<T>;
  readonly close: () => Promise<void>;
}

export interface ControlDbOptions {
  readonly url: string;
  readonly connections: number;
  readonly log: Log;
  /**
   * For work on large backlogs: its server processes yield to all others, where `lowerPriority` can do that, and their
   * commits do not wait for the disk. One that did would hold the log's lock, and with it the commits of others, until
   * it got a processor again. What is committed so lasts after a crash once any other session has committed a write
   * behind it.
   */
  readonly isLowPriority?: boolean;
  /** Settings of PostgreSQL with which each of its sessions begins. */
  readonly settings?: Readonly<Record<string, string>>;
}

/**
 * One message, one round trip. The server's own settings are a few that are set again and again: `set local` costs less
 * than `set_config`. Ours (with a dot) hold what differs from request to request, of which the statistics of statements
 * would keep each: there only what a function is called with is left out.
 */
const beginWith = (client: PoolClient, settings: Readonly<Record<string, string>>): string => {
  const statements = Object.entries(settings).map(([name, value]) =>
    name.includes('.')
      ? `select set_config(${client.escapeLiteral(name)}, ${client.escapeLiteral(value)}, true)`
      : `set local ${client.escapeIdentifier(name)} = ${client.escapeLiteral(value)}`,
  );
  return ['begin', ...statements].join('; ');
};

/** A server that is down is reported at once, and later while this process itself lags or connections are slow. */
const connectWithinMs = 1800;
/**
 * The time that a queued statement waits, as long as a caller would: more than a busy server takes to work through
 * many.
 */
const waitForConnectionMs = 8000;

/** The pool has one time for both, so the connection brings its own. */
class QuickClient extends Client {
  constructor(config?: ClientConfig) {
    super({ ...config, connectionTimeoutMillis: 0 });
    const { stream } = this.connection;
    const began = performance.now();
    const giveUp = (): void => void stream.destroy(new Error('timeout expired'));
    const cancel = giveUpAfter(connectTimes.patience(connectWithinMs), giveUp);
    this.once('connect', () => {
      cancel();
      connectTimes.note(performance.now() - began);
    });
    stream.once('close', cancel);
  }
}

const openPool = ({ url, connections, log, isLowPriority = false, settings = {} }: ControlDbOptions): Pool => {
  const all = { ...settings, ...(isLowPriority && { synchronous_commit: 'off' }) };
  const options = Object.entries(all).map(([name, value]) => `-c ${name}=${value}`);
  const pool = new Pool({
    connectionString: url,
    max: connections,
    Client: QuickClient,
    connectionTimeoutMillis: waitForConnectionMs,
    query_timeout: 15_000,
    statement_timeout: 14_000,
    idle_in_transaction_session_timeout: 30_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    application_name: 'plinth',
    ...(options.length > 0 && { options: options.join(' ') }),
  });
  // An error during a query fails that query, and an idle connection that breaks is dropped. Without a listener either
  // event would end the process.
  pool.on('connect', (client) => {
    client.on('error', () => undefined);
    if (isLowPriority) void lowerPriority(client);
  });
  pool.on('error', (error) => log.warn({ err: error }, 'an idle connection to the control database broke'));
  return pool;
};

/** A statement that the server refused leaves a usable connection; after any other failure it is closed. */
const leavesUsable = (error: unknown): boolean => error instanceof DatabaseError && error.severity === 'ERROR';

/**
 * The control database. Opens connections when they are first needed; a server that is down is an error within 2 s, or
 * later where connections were slow lately (`connectTimes`).
 */
export const openControlDb = (options: ControlDbOptions): ControlDb => {
  const pool = openPool(options);
  const untilSilence = createSilenceWatch(options.url);

  const withClient = async <T>(work: (query: Queryable['query'], client: PoolClient) => Promise<T>): Promise<T> => {
    const client = await pool.connect();
    let usable = true;
    const query: Queryable['query'] = async <Row extends QueryResultRow>(
      sql: string,
      values: readonly unknown[] = [],
      name?: string,
    ) => {
      try {
        const answer = client.query<Row>({ text: sql, values: [...values], ...(name && { name }) });
        return (await untilSilence(answer)).rows;
      } catch (error) {
        usable &&= leavesUsable(error);
        throw error;
      }
    };
    try {
      return await work(query, client);
    } catch (error) {
      // A rollback that fails says no more than that the connection must go.
      if (usable && client.getTransactionStatus() !== 'I') await query('rollback').catch(() => undefined);
      throw error;
    } finally {
      client.release(!usable);
    }
  };

  return {
    query: (sql, values, name) => withClient((query) => query(sql, values, name)),
    transaction: (work, settings = {}) =>
      withClient(async (query, client) => {
        await query(beginWith(client, settings));
        const result = await work({ kind: 'transaction', query });
        await query('commit');
        return result;
      }),
    close: () => pool.end(),
  };
};

/** The first row, or undefined. */
export const maybeOne = async <Row extends QueryResultRow>(rows: Promise<Row[]>): Promise<Row | undefined> =>
  (await rows)[0];

/** The only row of a statement that always answers one. */
export const one = async <Row extends QueryResultRow>(rows: Promise<Row[]>): Promise<Row> => {
  const [row] = await rows;
  if (row === undefined) throw new Error('a statement that always answers a row answered none');
  return row;
};
