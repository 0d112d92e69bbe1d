import type { Redis } from 'ioredis';
import type { DatabaseServers } from '#domain/database/servers/servers.ts';
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
import { type EventSource, findSource, removeSource, sourcesToPoll } from '#domain/events/subscriptions.ts';
import { hasWaitingEvents } from '#domain/webhooks/fan-out.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import { type RelayConnections, createRelayConnections } from './connections.ts';
import { fullest, relayed, setAside } from './metrics.ts';
import { type Drains, createDrains } from './drain-scheduler.ts';

export interface RelayDeps {
  readonly db: Queryable;
  readonly connections: Pick<RelayConnections, 'use'>;
  readonly log: Log;
  /** Events were kept, and wait to be passed on. */
  readonly onStored?: () => void;
}

/** The events of one project, and the time for them, before other projects are drained. */
const maxDrainEvents = 1000;
const drainMs = 50;
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
const drainBatch = async (taking: Taking, onStored?: () => void): Promise<boolean> => {
  const end = performance.now() + drainMs;
  let taken = 0;
  let last = -1;
  while (last !== 0 && taken < maxDrainEvents && (taken === 0 || performance.now() < end)) {
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
 * Drains one project's outbox once: at most 1,000 events, and no further ones after 50 ms. Any number of processes may
 * do so at once.
 * @returns whether there is more
 */
export const drainSource = async (
  { db, connections, log, onStored }: RelayDeps,
  source: EventSource,
): Promise<boolean> =>
  connections.use(source, async (client) => {
    const projectId = source.project_id;
    const onSetAside = (event: SetAside): void => {
      setAside.inc();
      log.warn({ project_id: projectId, event }, 'an event of a project could not be kept and was set aside');
    };
    // Events that its webhooks cannot keep up with wait there: a full outbox refuses writes.
    const isHeld = await hasWaitingEvents(db, projectId);
    const isEmpty = !isHeld && (await drainBatch({ client, db, projectId, onSetAside }, onStored));
    if (!isNoteDue(projectId, isEmpty)) return !isHeld;
    const isInUse = await isOutboxInUse(client);
    const backlog = await backlogOf(client);
    note(log, projectId, backlog);
    if (isEmpty && backlog.bytes > shrinkAboveBytes) await shrinkOutbox(client);
    const isDone = isEmpty && backlog.events === 0 && !isInUse && !backlog.subscribed;
    if (isDone) await removeSource(db, source);
    return !isEmpty && !isHeld;
  });

export interface RelayOptions extends Omit<RelayDeps, 'connections'> {
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

const openDrains = (deps: RelayDeps, markDirty: (projectId: string) => void): Drains =>
  createDrains({
    slots,
    largeSlots,
    markDirty,
    drain: async (source) => {
      try {
        return await drainSource(deps, source);
      } catch (error) {
        deps.log.warn(
          { err: error, project_id: source.project_id },
          'the events of a project could not be taken; they wait',
        );
        return false;
      }
    },
  });

/**
 * Brings events of writes to tables from the projects' databases into the control database: at once where a write path
 * said so, within some seconds elsewhere. Every system worker does this.
 */
export const startRelay = (options: RelayOptions): Pick<Poller, 'stop'> => {
  const { db, log, redis, prefix } = options;
  const connections = createRelayConnections({ servers: options.servers, max: options.maxIdleConnections });
  const key = dirtyKey(prefix);
  // Commands on the other connection would wait until there is a mark.
  const commands = redis.duplicate();
  commands.on('error', (error) => log.debug({ err: error }, 'the relay’s connection to Redis broke'));
  let stopped = false;
  const drains = openDrains({ ...options, connections }, (projectId) => {
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
      onFailure: (error) => log.debug({ err: error }, 'the relay could not wait for marked projects'),
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
      await connections.close();
    },
  };
};
