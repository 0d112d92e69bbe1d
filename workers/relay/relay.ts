import type { Redis } from 'ioredis';
import { inDatabase } from '#domain/database/limits/limits.ts';
import type { DatabaseServers } from '#domain/database/servers/servers.ts';
import { dirtyKey } from '#domain/events/dirty.ts';
import {
  type Backlog,
  type Taking,
  backlogOf,
  isOutboxInUse,
  shrinkOutbox,
  takeEvents,
} from '#domain/events/outbox.ts';
import type { SetAside } from '#domain/events/set-aside.ts';
import { type EventSource, findSource, removeSource, sourcesToLookInto } from '#domain/events/sources.ts';
import { hasWaitingEvents } from '#domain/webhooks/backlog.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { fullest, relayed, setAside } from './metrics.ts';

export interface RelayDeps {
  readonly db: Queryable;
  readonly servers: Pick<DatabaseServers, 'connectTo'>;
  readonly log: Log;
  /** Events were kept, and wait to be passed on. */
  readonly onKept?: () => void;
}

/** Events of one project before others have their turn. */
const mostInTurn = 20_000;
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
const takeTurn = async (taking: Taking, onKept?: () => void): Promise<boolean> => {
  let taken = 0;
  let last = -1;
  while (last !== 0 && taken < mostInTurn) {
    last = await takeEvents(taking);
    taken += last;
    if (last > 0) onKept?.();
    relayed.inc(last);
  }
  return last === 0;
};

/**
 * Takes what waits in one project's outbox. Any number may do so at once.
 * @returns whether there is more
 */
export const drainSource = async ({ db, servers, log, onKept }: RelayDeps, source: EventSource): Promise<boolean> =>
  inDatabase(servers, source, async (client) => {
    const projectId = source.project_id;
    const onSetAside = (event: SetAside): void => {
      setAside.inc();
      log.warn({ project_id: projectId, event }, 'an event of a project could not be kept and was set aside');
    };
    // What its webhooks cannot keep up with waits there: full, it refuses writes.
    const isHeld = await hasWaitingEvents(db, projectId);
    const isEmpty = !isHeld && (await takeTurn({ client, db, projectId, onSetAside }, onKept));
    const isInUse = await isOutboxInUse(client);
    const backlog = await backlogOf(client);
    note(log, projectId, backlog);
    if (isEmpty && backlog.bytes > shrinkAboveBytes) await shrinkOutbox(client);
    const isDone = isEmpty && backlog.events === 0 && !isInUse && !backlog.subscribed;
    if (isDone) await removeSource(db, source);
    return !isEmpty && !isHeld;
  });

export interface RelayOptions extends RelayDeps {
  /** Waits for marks; nobody else uses it, and the relay ends it. */
  readonly redis: Redis;
  readonly prefix: string;
}

const atOnce = 4;
/** How long one question for marks waits; the end of the relay ends it. */
const markWaitSeconds = 5;
/** What nobody marked, written over a connection of the project's own, is found by then. */
const lookEverySeconds = 5;
/** Databases that are looked into each second, by each worker, however many there are. */
const looksPerSecond = 5;

/** Drains each project once at a time; who asks meanwhile has it drained once more. */
const createTurns = (deps: RelayDeps, again: (projectId: string) => void) => {
  const running = new Map<string, { again: boolean; done: Promise<void> }>();
  const drain = async (source: EventSource, turn: { again: boolean }): Promise<void> => {
    try {
      if (await drainSource(deps, source)) turn.again = true;
    } catch (error) {
      deps.log.warn(
        { err: error, project_id: source.project_id },
        'the events of a project could not be taken; they wait',
      );
    }
    running.delete(source.project_id);
    if (turn.again) again(source.project_id);
  };
  return {
    begin: (source: EventSource): void => {
      const present = running.get(source.project_id);
      if (present) {
        present.again = true;
        return;
      }
      const turn = { again: false, done: Promise.resolve() };
      running.set(source.project_id, turn);
      turn.done = drain(source, turn);
    },
    isFull: (): boolean => running.size >= atOnce,
    oneDone: (): Promise<unknown> => Promise.race([...running.values()].map(({ done }) => done)),
    allDone: (): Promise<unknown> => Promise.all([...running.values()].map(({ done }) => done)),
  };
};

/**
 * Brings events of writes to tables from the projects' databases into the control database: at once where a write path
 * said so, within some seconds elsewhere. Every system worker does this.
 */
export const startRelay = (options: RelayOptions): { readonly stop: () => Promise<void> } => {
  const { db, log, redis, prefix } = options;
  const key = dirtyKey(prefix);
  let stopped = false;
  const turns = createTurns(options, (projectId) => {
    if (!stopped) redis.zadd(key, 'NX', Date.now(), projectId).catch(() => undefined);
  });

  const next = async (): Promise<void> => {
    const popped = await redis.bzpopmin(key, markWaitSeconds);
    const source = popped ? await findSource(db, popped[1]) : undefined;
    if (source) turns.begin(source);
    if (turns.isFull()) await turns.oneDone();
  };
  const follow = async (): Promise<void> => {
    while (!stopped) {
      await next().catch(async (error: unknown) => {
        if (stopped) return;
        log.debug({ err: error }, 'the relay could not ask for marks');
        await new Promise((resolve) => setTimeout(resolve, 1000));
      });
    }
  };

  let looking = Promise.resolve();
  const look = async (): Promise<void> => {
    const sources = await sourcesToLookInto(db, { most: looksPerSecond, seconds: lookEverySeconds });
    for (const source of sources) turns.begin(source);
  };
  const timer = setInterval(() => {
    looking = looking
      .then(look)
      .catch((error: unknown) => log.debug({ err: error }, 'the relay could not look around'));
  }, 1000).unref();

  const following = follow();
  return {
    stop: async () => {
      stopped = true;
      clearInterval(timer);
      redis.disconnect();
      await Promise.all([following, looking]);
      await turns.allDone();
    },
  };
};
