import { Socket } from 'node:net';
import { Client } from 'pg';
import type { Log } from './log.ts';
import { type Use, createUses, leastUsed, noteUse } from './recent-use.ts';

export interface TenantLogin {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly password: string;
}

export interface TenantConnection {
  readonly client: Client;
}

export interface TenantConnectionsOptions {
  /** Connections altogether: those that open, idle or close count, too. */
  readonly budget: number;
  /** Connections that may share a key. */
  readonly perKey: (key: string) => number;
  /** The owner of a key: the last quarter of the budget is for owners without a connection. */
  readonly ownerOf: (key: string) => string;
  /** The time that a caller waits for a connection, and that connecting may take. */
  readonly waitMs: number;
  readonly idleMs: number;
  /** Asked for each new connection, so that what was changed or taken away counts at once. */
  readonly login: (key: string) => Promise<TenantLogin>;
  /** The statements with which each session of a key begins, and by which it is reset. */
  readonly settings: (key: string) => Readonly<Record<string, string>>;
  /** Prepares each new connection before it is lent. */
  readonly prepare: (key: string, client: Client) => Promise<void>;
  /** The error of a caller that waited in vain. */
  readonly refusal: () => Error;
  readonly log: Pick<Log, 'debug'>;
}

/** The connections under one key. */
interface Group {
  readonly key: string;
  /** Used last at the end: the warmest is taken first. */
  readonly idle: Connection[];
  /** Open, opening and closing. */
  size: number;
  readonly max: number;
  readonly use: Use;
}

interface Connection extends TenantConnection {
  readonly group: Group;
  readonly socket: Socket;
  /** The socket's own end: from then on the server has one connection less. */
  readonly closed: Promise<void>;
  closing: boolean;
  idleSince: number;
}

/** Settings as a start-up packet carries them: spaces and backslashes are escaped (PostgreSQL, "options" of libpq). */
const startOptions = (settings: Readonly<Record<string, string>>): string =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replaceAll(/[\\ ]/g, String.raw`\$&`)}`)
    .join(' ');

interface Waiter {
  readonly key: string;
  readonly since: number;
  readonly take: (connection: Promise<Connection>) => void;
}

const politeCloseMs = 1000;
// Where connections are scarce, one that comes back soon is worth more than a new one: it takes the place of another's,
// and as long to open. Most requests give theirs back within 2 ms.
const patienceMs = 10;

/**
 * Connections by key (a project and a role), under one budget. Why not one pg.Pool per key: the budget spans all keys,
 * an idle connection of another key must make room, and a key that has all that it may have must wait without using up
 * the budget of the others.
 */
export class TenantConnections {
  readonly #options: TenantConnectionsOptions;
  readonly #groups = new Map<string, Group>();
  readonly #waiting = new Set<Waiter>();
  /** Idle for the longest time first. */
  readonly #idle = new Set<Connection>();
  readonly #useOf = createUses();
  #sweep: NodeJS.Timeout | undefined;
  #count = 0;
  #closing = 0;

  constructor(options: TenantConnectionsOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#count;
  }

  take(key: string): Promise<TenantConnection> {
    const group = this.#groups.get(key);
    const warm = group?.idle.at(-1);
    if (group === undefined || warm === undefined) return this.#wait(key);
    noteUse(group.use, performance.now());
    this.#leaveIdle(warm);
    return Promise.resolve(warm);
  }

  #wait(key: string): Promise<TenantConnection> {
    const { waitMs, refusal } = this.#options;
    const since = performance.now();
    noteUse(this.#useOf(key), since);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(waiter);
        reject(refusal());
      }, waitMs);
      const impatient = setTimeout(() => this.#serve(), patienceMs + 1);
      const waiter: Waiter = {
        key,
        since,
        take: (connection) => {
          clearTimeout(timer);
          clearTimeout(impatient);
          resolve(connection);
        },
      };
      this.#waiting.add(waiter);
      this.#serve();
    });
  }

  /** @param usable false: it is closed; so is one that is still in a transaction */
  giveBack(lent: TenantConnection, usable: boolean): void {
    const connection = lent as Connection;
    const { client, group } = connection;
    if (connection.closing) return;
    if (!usable || client.getTransactionStatus() !== 'I' || this.#groups.get(group.key) !== group) {
      void this.#close(connection);
      return;
    }
    connection.idleSince = performance.now();
    group.idle.push(connection);
    this.#idle.add(connection);
    this.#sweepIn(this.#options.idleMs);
    if (this.#waiting.size > 0) this.#serve();
  }

  /** One timer for all, since connections come and go thousands of times a second. */
  #sweepIn(afterMs: number): void {
    this.#sweep ??= setTimeout(() => {
      this.#sweep = undefined;
      const now = performance.now();
      for (const connection of this.#idle) {
        const left = connection.idleSince + this.#options.idleMs - now;
        if (left > 0) return this.#sweepIn(left);
        void this.#close(connection);
      }
    }, afterMs).unref();
  }

  /** Closes what is idle under a key; what is taken is closed when it comes back. */
  async retire(key: string): Promise<void> {
    const idle = [...(this.#groups.get(key)?.idle ?? [])];
    this.#groups.delete(key);
    await Promise.all(idle.map((connection) => this.#close(connection)));
  }

  async close(): Promise<void> {
    clearTimeout(this.#sweep);
    await Promise.all([...this.#groups.keys()].map((key) => this.retire(key)));
  }

  #groupOf(key: string): Group {
    const present = this.#groups.get(key);
    return present ?? { key, idle: [], size: 0, max: this.#options.perKey(key), use: this.#useOf(key) };
  }

  /** One of the key's own is in use, and will do, unless it takes long. */
  #awaitsOwn({ size, idle }: Group, { since }: Waiter): boolean {
    const isScarce = this.#count * 4 >= this.#options.budget * 3;
    return isScarce && size > idle.length && performance.now() - since < patienceMs;
  }

  /**
   * A few who keep all their connections busy must not take everybody's: while three quarters of the budget are in use,
   * only who uses none gets one more.
   */
  #isReserved({ key }: Group): boolean {
    const { budget, ownerOf } = this.#options;
    if ((this.#count - this.#idle.size) * 4 < budget * 3) return false;
    const owner = ownerOf(key);
    for (const group of this.#groups.values()) {
      if (group.size > group.idle.length && ownerOf(group.key) === owner) return true;
    }
    return false;
  }

  /** First come, first served, but no caller waits behind a key that has reached its limit. */
  #serve(): void {
    let starved = 0;
    for (const waiter of this.#waiting) {
      const group = this.#groupOf(waiter.key);
      const connection = this.#connectionFor(group, waiter);
      if (connection) {
        this.#waiting.delete(waiter);
        waiter.take(connection);
      } else if (this.#mayOpen(group, waiter)) starved += 1;
    }
    while (this.#closing < starved) {
      const min = leastUsed(this.#idle, ({ group }) => group.use, performance.now());
      if (min === undefined) return;
      void this.#close(min);
    }
  }

  #connectionFor(group: Group, waiter: Waiter): Promise<Connection> | null {
    const warm = group.idle.at(-1);
    if (warm) {
      this.#leaveIdle(warm);
      return Promise.resolve(warm);
    }
    return this.#count < this.#options.budget && this.#mayOpen(group, waiter) ? this.#open(group) : null;
  }

  /** Whether one more connection is its due, when there is room. */
  #mayOpen(group: Group, waiter: Waiter): boolean {
    return group.size < group.max && !this.#awaitsOwn(group, waiter) && !this.#isReserved(group);
  }

  async #open(group: Group): Promise<Connection> {
    // Counted before anything is awaited.
    this.#groups.set(group.key, group);
    group.size += 1;
    this.#count += 1;
    const login = await this.#options.login(group.key).catch((error: unknown) => {
      this.#uncount(group);
      throw error;
    });
    const connection = this.#create(group, login);
    try {
      await connection.client.connect();
      await this.#options.prepare(group.key, connection.client);
    } catch (error) {
      connection.socket.destroy();
      throw error;
    }
    return connection;
  }

  #create(group: Group, login: TenantLogin): Connection {
    const socket = new Socket();
    const client = new Client({
      ...login,
      stream: () => socket,
      connectionTimeoutMillis: this.#options.waitMs,
      keepAlive: true,
      options: startOptions(this.#options.settings(group.key)),
    });
    client.on('error', (error) => this.#options.log.debug({ err: error }, 'a tenant connection broke'));
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const connection: Connection = { client, group, socket, closed, closing: false, idleSince: 0 };
    socket.once('close', () => {
      this.#leaveIdle(connection);
      if (connection.closing) this.#closing -= 1;
      connection.closing = true;
      this.#uncount(group);
      resolve();
    });
    return connection;
  }

  #uncount(group: Group): void {
    group.size -= 1;
    this.#count -= 1;
    if (group.size === 0 && this.#groups.get(group.key) === group) this.#groups.delete(group.key);
    this.#serve();
  }

  #leaveIdle(connection: Connection): void {
    if (!this.#idle.delete(connection)) return;
    const { idle } = connection.group;
    idle.splice(idle.indexOf(connection), 1);
  }

  #close(connection: Connection): Promise<void> {
    this.#leaveIdle(connection);
    if (connection.closing) return connection.closed;
    connection.closing = true;
    this.#closing += 1;
    const overdue = setTimeout(() => connection.socket.destroy(), politeCloseMs);
    void connection.closed.then(() => clearTimeout(overdue));
    connection.client
      .end()
      .catch((error: unknown) => this.#options.log.debug({ err: error }, 'a tenant connection did not close'));
    return connection.closed;
  }
}
