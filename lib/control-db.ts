import { Pool, type PoolClient, type QueryResultRow, types } from 'pg';
import type { Log } from './log.ts';

// bigint counts stay exact up to 2^53, which is beyond anything that we count; numeric stays text.
types.setTypeParser(types.builtins.INT8, Number);

/** What SQL can be run on: the pool or one transaction. Statements with a `name` are prepared once per connection. */
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
}

const run = async <Row extends QueryResultRow>(
  on: Pool | PoolClient,
  sql: string,
  values: readonly unknown[] = [],
  name?: string,
): Promise<Row[]> => {
  const result = await on.query<Row>({ text: sql, values: [...values], ...(name && { name }) });
  return result.rows;
};

const beginWith = (client: PoolClient, settings: Readonly<Record<string, string>>): Promise<unknown> => {
  const calls = Object.entries(settings).map(
    ([name, value]) => `set_config(${client.escapeLiteral(name)}, ${client.escapeLiteral(value)}, true)`,
  );
  // One message, one round trip.
  return client.query(calls.length > 0 ? `begin; select ${calls.join(', ')}` : 'begin');
};

/** The control database. Opens connections when they are first needed; a server that is down is an error within 2 s. */
export const openControlDb = ({ url, connections, log }: ControlDbOptions): ControlDb => {
  const pool = new Pool({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: 1800,
    query_timeout: 15_000,
    statement_timeout: 14_000,
    idle_in_transaction_session_timeout: 30_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    application_name: 'plinth',
  });
  // A connection that breaks while idle is dropped by the pool; unheard, its event would end the process.
  pool.on('error', (error) => log.warn({ err: error }, 'an idle connection to the control database broke'));

  const transaction: ControlDb['transaction'] = async (work, settings = {}) => {
    const client = await pool.connect();
    let broken: Error | undefined;
    try {
      await beginWith(client, settings);
      const result = await work({ kind: 'transaction', query: (sql, values, name) => run(client, sql, values, name) });
      await client.query('commit');
      return result;
    } catch (error) {
      await client.query('rollback').catch((failure: Error) => {
        broken = failure;
      });
      throw error;
    } finally {
      client.release(broken);
    }
  };

  return {
    query: (sql, values, name) => run(pool, sql, values, name),
    transaction,
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
