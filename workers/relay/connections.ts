import type { Client } from 'pg';
import { type DatabasePlace, type DatabaseServers } from '#domain/database-servers/database-servers.ts';

/** The platform's connections to project databases that stay open between drains. */
export interface RelayConnections {
  /** Runs `work` on a connection of its own; after an error it is closed. */
  readonly use: <T>(place: DatabasePlace, work: (client: Client) => Promise<T>) => Promise<T>;
  /** Closes idle connections, now and from now on. */
  readonly close: () => Promise<void>;
}

export interface RelayConnectionsOptions {
  readonly servers: Pick<DatabaseServers, 'connectTo'>;
  /** The most connections that are kept while idle. */
  readonly max: number;
  /** Kept no longer than that without being used. */
  readonly idleMs?: number;
}

interface CachedClient {
  readonly client: Client;
  readonly timer: NodeJS.Timeout;
}

const defaultIdleMs = 60_000;

const end = (client: Client): Promise<void> => client.end().catch(() => undefined);

/** A connection that was kept may be gone by now: its server was restarted, or its database renamed. */
const isConnectionLost = (error: unknown): boolean => {
  const code = String(Reflect.get(Object(error), 'code') ?? '');
  return /^(08|57P0)/.test(code) || code.startsWith('E') || /Connection terminated|not queryable/.test(String(error));
};

interface ClientCache {
  readonly take: (key: string) => Client | undefined;
  readonly keep: (key: string, client: Client) => Promise<void>;
  /** Ends a connection, and no longer keeps it. */
  readonly drop: (key: string, client: Client) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** The least recently used goes first when there are more than `max`. */
const createClientCache = (max: number, idleMs: number): ClientCache => {
  /** By place, the least recently used first. */
  const cache = new Map<string, CachedClient>();
  let limit = max;

  const take: ClientCache['take'] = (key) => {
    const found = cache.get(key);
    cache.delete(key);
    clearTimeout(found?.timer);
    return found?.client;
  };
  const drop: ClientCache['drop'] = (key, client) => {
    if (cache.get(key)?.client === client) take(key);
    return end(client);
  };
  return {
    take,
    drop,
    keep: async (key, client) => {
      const present = take(key);
      const timer = setTimeout(() => void drop(key, client), idleMs).unref();
      cache.set(key, { client, timer });
      const [oldest] = cache.keys();
      const surplus = cache.size > limit && oldest !== undefined ? take(oldest) : undefined;
      await Promise.all([present, surplus].flatMap((each) => (each ? [end(each)] : [])));
    },
    close: async () => {
      limit = 0;
      await Promise.all([...cache].map(([key, { client }]) => drop(key, client)));
    },
  };
};

/**
 * Opening a connection and signing in takes longer than the rest of a short drain, so recently used connections are
 * kept. Work that fails on a kept connection because it broke is repeated on a new one.
 */
export const createRelayConnections = ({
  servers,
  max,
  idleMs = defaultIdleMs,
}: RelayConnectionsOptions): RelayConnections => {
  const cache = createClientCache(max, idleMs);

  const open = async (key: string, { server_id, db_name }: DatabasePlace): Promise<Client> => {
    const client = await servers.connectTo(server_id, db_name);
    client.on('end', () => void cache.drop(key, client));
    return client;
  };
  const run = async <T>(key: string, client: Client, work: (client: Client) => Promise<T>): Promise<T> => {
    try {
      const result = await work(client);
      await cache.keep(key, client);
      return result;
    } catch (error) {
      await end(client);
      throw error;
    }
  };

  return {
    use: async (place, work) => {
      const key = `${place.server_id} ${place.db_name}`;
      const present = cache.take(key);
      if (present !== undefined) {
        try {
          return await run(key, present, work);
        } catch (error) {
          if (!isConnectionLost(error)) throw error;
        }
      }
      return run(key, await open(key, place), work);
    },
    close: cache.close,
  };
};
