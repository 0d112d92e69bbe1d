/*
 * The PostgreSQL servers that hold projects' databases. This file has the connections as the platform. The way through
 * this folder: template.ts (what each new database is a copy of), provision.ts (making one), upgrade.ts (new
 * migrations), retire.ts (deleting one), limits.ts (what a plan allows), watchdog.ts (sessions beyond every limit),
 * names.ts.
 */
import { Client, Pool } from 'pg';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import type { Sealer } from '#lib/secrets.ts';
import type { Log } from '#lib/log.ts';
import type { Plan } from './limits.ts';

/**
 * The PostgreSQL servers that hold the projects' databases, and everything that is done there as the platform's own
 * role. A project's database is made by `provision.ts` as a copy of the template (`template.ts`), brought to the
 * present version by `upgrade.ts`, and closed, dropped or opened again by `retire.ts`. `names.ts` has the names of
 * databases and roles and says whose a database is; `limits.ts` writes what a plan allows into it; `watchdog.ts` ends
 * sessions that go too far.
 */

/** A project as the server that holds its database knows it: the part of its row that this folder needs. */
export interface HostedProject {
  readonly id: string;
  readonly ref: string;
  readonly slug: string;
  readonly server_id: string;
  readonly db_name: string;
  readonly plan: Plan;
  readonly data_key: Buffer;
  readonly deleted_at: Date | null;
}

const hostedColumns = 'id, ref, slug, server_id, db_name, plan, data_key, deleted_at';

/** Finds a project whatever its state, deleted ones too. */
export const findHosted = (db: Queryable, projectId: string): Promise<HostedProject | undefined> =>
  maybeOne(db.query<HostedProject>(`select ${hostedColumns} from projects where id = $1`, [projectId]));

/** The projects whose databases that server holds and that can be used, or could before they were paused. */
export const projectsOn = (db: Queryable, serverId: string): Promise<HostedProject[]> =>
  db.query<HostedProject>(
    `select ${hostedColumns} from projects
     where server_id = $1 and deleted_at is null and status in ('active', 'paused') order by id`,
    [serverId],
  );

/** The PostgreSQL servers that hold project databases, reached as the role that may create databases and roles. */
export interface DatabaseServers {
  /** Connections to a server's maintenance database. */
  readonly admin: (serverId: string) => Promise<Pool>;
  /** One connection as the platform's role to a database of that server; the caller ends it. */
  readonly connectTo: (serverId: string, database: string) => Promise<Client>;
  /** The databases of that server that are the platform's, which no project may enter. */
  readonly ownDatabases: (serverId: string) => Promise<readonly string[]>;
  readonly address: (serverId: string) => Promise<{ readonly host: string; readonly port: number }>;
  readonly close: () => Promise<void>;
}

export interface DatabaseServersOptions {
  readonly db: Queryable;
  readonly sealer: Sealer;
  /** The server of the control database, which rows without a URL mean. */
  readonly controlUrl: string;
  readonly log: Log;
}

export const maintenanceDatabase = 'postgres';
const adminConnections = 4;
// CREATE DATABASE on a busy disk takes longer than an ordinary statement may.
const adminTimeoutMs = 60_000;

/**
 * A session there finds nothing but the server's own functions unless it names the schema: in a project's database
 * `public` is the project's, and a function in it that fits better than the server's would run as the platform.
 */
const urlTo = (serverUrl: string, database: string): string => {
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  const options = [url.searchParams.get('options'), '-c search_path=pg_catalog,pg_temp'];
  url.searchParams.set('options', options.filter((option) => option !== null).join(' '));
  return url.toString();
};

const databaseOf = (serverUrl: string): string => decodeURIComponent(new URL(serverUrl).pathname.slice(1));

export const createDatabaseServers = ({ db, sealer, controlUrl, log }: DatabaseServersOptions): DatabaseServers => {
  const urls = new Map<string, Promise<string>>();
  const pools = new Map<string, Pool>();

  const readUrl = async (serverId: string): Promise<string> => {
    const row = await maybeOne(
      db.query<{ url_sealed: Buffer | null }>('select url_sealed from database_servers where id = $1', [serverId]),
    );
    if (row === undefined) throw new Error(`there is no database server ${serverId}`);
    return row.url_sealed === null ? controlUrl : sealer.open(`server:${serverId}`, row.url_sealed);
  };

  const urlOf = (serverId: string): Promise<string> => {
    const known = urls.get(serverId);
    if (known) return known;
    const reading = readUrl(serverId);
    urls.set(serverId, reading);
    // A server that failed is asked again next time.
    reading.catch(() => urls.delete(serverId));
    return reading;
  };

  return {
    admin: async (serverId) => {
      const url = await urlOf(serverId);
      const present = pools.get(serverId);
      if (present) return present;
      const pool = new Pool({
        connectionString: urlTo(url, maintenanceDatabase),
        max: adminConnections,
        // Waiting for one of the few connections included.
        connectionTimeoutMillis: 30_000,
        query_timeout: adminTimeoutMs,
        idleTimeoutMillis: 30_000,
        application_name: 'plinth-admin',
      });
      // Unheard, the events of connections that break would end the process.
      pool.on('connect', (client) => void client.on('error', () => undefined));
      pool.on('error', (error) => log.debug({ err: error }, 'an idle admin connection broke'));
      pools.set(serverId, pool);
      return pool;
    },
    connectTo: async (serverId, database) => {
      const client = new Client({
        connectionString: urlTo(await urlOf(serverId), database),
        connectionTimeoutMillis: 10_000,
        query_timeout: adminTimeoutMs,
        application_name: 'plinth-admin',
      });
      client.on('error', (error) => log.debug({ err: error }, 'an admin connection broke'));
      await client.connect();
      return client;
    },
    ownDatabases: async (serverId) => {
      const isControl = (await urlOf(serverId)) === controlUrl;
      return [maintenanceDatabase, 'template1', ...(isControl ? [databaseOf(controlUrl)] : [])];
    },
    address: async (serverId) => {
      const url = new URL(await urlOf(serverId));
      // As in libpq, a folder with a Unix socket stands in the query.
      return { host: url.searchParams.get('host') ?? url.hostname, port: Number(url.port || 5432) };
    },
    close: async () => {
      await Promise.all([...pools.values()].map((pool) => pool.end()));
    },
  };
};

/** The place of a project's database. */
export interface DatabasePlace {
  readonly server_id: string;
  readonly db_name: string;
}

/** A connection as the platform to a project's database, for the time of `work`. */
export const inDatabase = async <T>(
  servers: Pick<DatabaseServers, 'connectTo'>,
  { server_id, db_name }: DatabasePlace,
  work: (client: Client) => Promise<T>,
): Promise<T> => {
  const client = await servers.connectTo(server_id, db_name);
  try {
    return await work(client);
  } finally {
    await client.end();
  }
};
