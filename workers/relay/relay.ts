import type { Redis } from 'ioredis';
import { Counter, Gauge } from 'prom-client';
import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';
import { dirtyKey } from '#domain/events/marks.ts';
import {
  type Backlog,
  type SetAside,
  type Taking,
  backlogOf,
  isOutboxInUse,
  shrinkOutbox,
  takeEvents,
} from '#domain/events/outbox.ts';
import { type EventSource, findSource, notePolled, removeSource, sourcesToPoll } from '#domain/events/subscriptions.ts';
import { hasWaitingEvents } from '#domain/webhooks/fan-out.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { registry } from '#lib/metrics.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import { lowerPriority } from '#lib/postgres/lower-priority.ts';
import { type RelayConnections, createRelayConnections } from './connections.ts';
import { type Drains, createDrains } from './drain-scheduler.ts';

const relayed = new Counter({
  name: 'plinth_table_events_relayed_total',
  help: 'Events of writes to tables that this process took from projects’ databases.',
  registers: [registry],
});

const setAside = new Counter({
  name: 'plinth_table_events_set_aside_total',
  help: 'Events of writes to tables that could not be kept, and wait in their project’s plinth.outbox_failed.',
  registers: [registry],
});

const fullest = new Gauge({
  name: 'plinth_event_backlog_share',
  help: 'How full the fullest outbox of a project is that this process looked into, 0 to 1: at 1 writes are refused.',
  registers: [registry],
});

export interface RelayDeps {
  readonly db: Queryable;
  readonly connections: Pick<RelayConnections, 'use'>;
  /** Makes jobs of what functions enqueued in transactions. */
  readonly keepJobs?: (projectId: string, text: string) => Promise<void>;
  readonly log: Log;
  /** Events were kept, and wait to be passed on. */
  readonly onStored?: () => void;
  /** Where commits of `db` do not wait for the disk: resolves when what was kept of a project's events lasts. */
  readonly untilLasting?: (projectId: string) => Promise<void>;
  /** Events that a drain may take at most; left out: 1,000. */
  readonly maxDrainEvents?: number;
}

/** The events of one project, and the time for them, before other projects are drained. */
const usualMaxDrainEvents = 1000;
const drainMs = 50;
/** A project that is not known to have a large backlog gets one batch: more than that is large. */
const maxFirstDrainEvents = 250;
/** Deleted rows hold their place until it is given back. */
const shrinkAboveBytes = 16 * 1024 * 1024;
const fullShare = 0.5;

const shares = new Map<string, number>();

const note = (log: Log, projectId: string, { share, events, bytes }: Backlog): void => {
  if (share > 0.01) shares.set(projectId, share);
  else shares.delete(projectId);
  fullest.set(Math.max(0, ...shares.values()));
  if (share < fullShare) return;
  log.warn(
    { project_id: projectId, events, bytes, share },
    'the outbox of a project fills up; full, it refuses writes',
  );
};

/** @returns whether nothing is left that can be taken now */
const drainBatch = async (
  taking: Taking,
  { onStored, maxDrainEvents = usualMaxDrainEvents }: Pick<RelayDeps, 'onStored' | 'maxDrainEvents'>,
): Promise<boolean> => {
  const end = performance.now() + drainMs;
  let taken = 0;
  let last = -1;
  let isLate = false;
  while (last !== 0 && taken < maxDrainEvents && !isLate) {
    // One batch more than there is time for: it tells few events, on a busy machine, from a large backlog.
    isLate = taken > 0 && performance.now() >= end;
    last = await takeEvents(taking);
    taken += last;
    if (last > 0) onStored?.();
    relayed.inc(last);
  }
  return last === 0;
};

/** The last check of a project's backlog, for projects with more than fits into a drain. */
const notedAt = new Map<string, number>();
const noteEveryMs = 1000;

const isNoteDue = (projectId: string, isEmpty: boolean): boolean => {
  const now = performance.now();
  const isDue = isEmpty || now - (notedAt.get(projectId) ?? -Infinity) >= noteEveryMs;
  if (isEmpty) notedAt.delete(projectId);
  else if (isDue) notedAt.set(projectId, now);
  return isDue;
};

/**
 * Drains one project's outbox once: at most 1,000 events, and one further batch after 50 ms. Any number of processes
 * may do so at once.
 * @returns whether there is more
 */
export const drainSource = async (deps: RelayDeps, source: EventSource): Promise<boolean> =>
  deps.connections.use(source, async (client) => {
    const { db, log, untilLasting, keepJobs } = deps;
    const projectId = source.project_id;
    const onSetAside = (event: SetAside): void => {
      setAside.inc();
      log.warn({ project_id: projectId, event }, 'an event of a project could not be kept and was set aside');
    };
    const taking: Taking = {
      client,
      db,
      projectId,
      onSetAside,
      ...(keepJobs && { keepJobs: (text) => keepJobs(projectId, text) }),
      ...(untilLasting && { untilLasting: () => untilLasting(projectId) }),
    };
    // Events that its webhooks cannot keep up with wait there: a full outbox refuses writes.
    const isHeld = await hasWaitingEvents(db, projectId);
    const isEmpty = !isHeld && (await drainBatch(taking, deps));
    if (!isNoteDue(projectId, isEmpty)) return !isHeld;
    const isInUse = await isOutboxInUse(client);
    const backlog = await backlogOf(client);
    note(log, projectId, backlog);
    if (isEmpty && backlog.bytes > shrinkAboveBytes) await shrinkOutbox(client);
    const isDone = isEmpty && backlog.events === 0 && !isInUse && !backlog.subscribed;
    if (isDone) await removeSource(db, source);
    return !isEmpty && !isHeld;
  });

export interface RelayOptions extends Pick<RelayDeps, 'db' | 'log' | 'onStored' | 'keepJobs'> {
  /** For what is kept of large backlogs: its server processes have a low priority. */
  readonly backlogDb: Queryable;
  readonly servers: Pick<DatabaseServers, 'connectTo'>;
  /** Idle connections to project databases that are kept open (`PLINTH_RELAY_CONNECTIONS`). */
  readonly maxIdleConnections: number;
  /** Waits for marks; the relay owns it and ends it. */
  readonly redis: Redis;
  readonly prefix: string;
}

const slots = 4;
/** One slot is left for projects with few events. */
const largeSlots = slots - 1;
/** How long one question for marks waits; the end of the relay ends it. */
const markWaitSeconds = 5;
/** Events without a mark, written over a connection of the project's own, are found by then. */
const pollIntervalSeconds = 5;
/** Databases that each worker polls in a second, however many there are. */
const pollsPerSecond = 5;

/** Few events are taken at the usual priority, large backlogs over connections that yield to everybody. */
interface DrainDeps {
  readonly usual: RelayDeps;
  readonly large: RelayDeps;
}

const openDrains = ({ usual, large }: DrainDeps, markDirty: (projectId: string) => void): Drains =>
  createDrains({
    slots,
    largeSlots,
    markDirty,
    drain: async (source, isLarge) => {
      try {
        return await drainSource(isLarge ? large : usual, source);
      } catch (error) {
        usual.log.warn(
          { err: error, project_id: source.project_id },
          'the events of a project could not be taken; they wait',
        );
        return false;
      }
    },
  });

/**
 * As `servers`, but what it opens has a low priority from its first statement, and does not wait for the disk: events
 * whose removal a crash undoes are taken again, and are kept once.
 */
const yielding = (servers: Pick<DatabaseServers, 'connectTo'>): Pick<DatabaseServers, 'connectTo'> => ({
  connectTo: async (...where) => {
    const client = await servers.connectTo(...where);
    try {
      await lowerPriority(client);
      await client.query('set synchronous_commit = off');
      return client;
    } catch (error) {
      await client.end().catch(() => undefined);
      throw error;
    }
  },
});

const usualDeps = (
  { db, log, onStored, keepJobs }: RelayOptions,
  connections: RelayConnections,
): RelayDeps & { readonly connections: RelayConnections } => ({
  db,
  connections,
  log,
  maxDrainEvents: maxFirstDrainEvents,
  ...(onStored && { onStored }),
  ...(keepJobs && { keepJobs }),
});

/**
 * Brings events of writes to tables from the projects' databases into the control database: at once where a write path
 * said so, within some seconds elsewhere. Every system worker does this.
 */
export const startRelay = (options: RelayOptions): Pick<Poller, 'stop'> => {
  const { db, backlogDb, log, redis, prefix, servers } = options;
  const connections = createRelayConnections({ servers, max: options.maxIdleConnections });
  const yieldingConnections = createRelayConnections({ servers: yielding(servers), max: largeSlots });
  const usual = usualDeps(options, connections);
  const large = {
    ...usual,
    db: backlogDb,
    connections: yieldingConnections,
    maxDrainEvents: usualMaxDrainEvents,
    untilLasting: (projectId: string) => notePolled(db, projectId),
  };
  const key = dirtyKey(prefix);
  // Commands on the other connection would wait until there is a mark.
  const commands = redis.duplicate();
  commands.on('error', (error) => log.debug({ err: error }, 'the relay’s connection to Redis broke'));
  let stopped = false;
  const drains = openDrains({ usual, large }, (projectId) => {
    if (!stopped) commands.zadd(key, 'NX', Date.now(), projectId).catch(() => undefined);
  });

  const next = async (): Promise<void> => {
    const popped = await redis.bzpopmin(key, markWaitSeconds);
    const source = popped ? await findSource(db, popped[1]) : undefined;
    if (source) drains.begin(source);
    if (drains.isFull()) await drains.oneDone();
  };
  const poll = async (): Promise<void> => {
    const sources = await sourcesToPoll(db, { max: pollsPerSecond, seconds: pollIntervalSeconds });
    for (const source of sources) drains.begin(source);
  };
  const pollers = [
    startPoller(next, {
      everyMs: 0,
      onFailure: (error) => {
        if (!stopped) log.debug({ err: error }, 'the relay could not wait for marked projects');
      },
    }),
    startPoller(poll, {
      everyMs: 1000,
      firstInMs: 1000,
      onFailure: (error) => log.debug({ err: error }, 'the relay could not poll for unmarked events'),
    }),
  ];
  return {
    stop: async () => {
      stopped = true;
      const ended = pollers.map((poller) => poller.stop());
      // The question for marks that is under way ends with its connection.
      redis.disconnect();
      await Promise.all(ended);
      await drains.stop();
      commands.disconnect();
      await Promise.all([connections.close(), yieldingConnections.close()]);
    },
  };
};
