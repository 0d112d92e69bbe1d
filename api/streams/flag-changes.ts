import type { ServerResponse } from 'node:http';
import { LRUCache } from 'lru-cache';
import { changeText } from '#domain/flags/ofrep.ts';
import type { FlagSet } from '#domain/flags/flag-sets.ts';
import type { StreamGrant } from '#domain/flags/stream-tokens.ts';
import type { Plan } from '#domain/projects/store.ts';
import type { Config } from '#lib/config.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import type { Deps } from '#api/deps.ts';
import { RawReply } from '#api/endpoint.ts';
import type { RawRequest } from '#api/raw-endpoint.ts';
import { eventStreamHeaders, eventStreamType } from './sse.ts';

/** A client that waits for changes. The answer is written directly: a stream of its own would double its memory. */
interface Listener {
  readonly res: ServerResponse;
  readonly projectId: string;
  readonly name: string;
  readonly endsAt: number;
  quietSince: number;
}

const tickMs = 1000;
const keepAliveMs = 15_000;
/** After that the client connects again: balancers close longer ones, without saying so. */
const maxMs = 15 * 60_000;
/** Listeners that are written to at a stretch. */
const slice = 250;
/** A client that reads nothing is dropped. */
const maxUnread = 16 * 1024;
/** A change of so short ago may have come between a client's answer and its stream. */
const recentMs = 30_000;

const nameOf = (projectId: string, environment: string): string => `${projectId} ${environment}`;

class Listeners {
  readonly #deps: Deps;
  readonly #byName = new Map<string, Set<Listener>>();
  readonly #byProject = new Map<string, number>();
  readonly #changedAt = new LRUCache<string, number>({ max: 10_000 });
  #total = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
    deps.flags.sets.onChange((set) => void this.#announce(set));
  }

  /** @throws {ServiceError} `rate_limited` */
  requireRoom(projectId: string, max: number): void {
    const { PLINTH_FLAG_LISTENERS: all } = this.#deps.config;
    if (this.#total < all && (this.#byProject.get(projectId) ?? 0) < max) return;
    throw new ServiceError('rate_limited', 'Too many clients listen for changes just now.', {
      hint: 'Ask for the flags now and then.',
      headers: { 'Retry-After': '30' },
    });
  }

  isRecent(name: string): boolean {
    return performance.now() - (this.#changedAt.get(name) ?? Number.NEGATIVE_INFINITY) < recentMs;
  }

  add(res: ServerResponse, { projectId, environment }: StreamGrant): void {
    const now = performance.now();
    const name = nameOf(projectId, environment);
    const listener = { res, projectId, name, endsAt: now + maxMs, quietSince: now };
    const others = this.#byName.get(name) ?? new Set();
    others.add(listener);
    this.#byName.set(name, others);
    this.#byProject.set(projectId, (this.#byProject.get(projectId) ?? 0) + 1);
    this.#total += 1;
    const release = this.#deps.flags.sets.keepFresh(projectId);
    res.once('close', () => {
      release();
      this.#remove(listener);
    });
    this.#timer ??= setInterval(() => this.#tick(), tickMs).unref();
  }

  #remove(listener: Listener): void {
    const { name, projectId } = listener;
    const others = this.#byName.get(name);
    others?.delete(listener);
    if (others?.size === 0) this.#byName.delete(name);
    const left = (this.#byProject.get(projectId) ?? 1) - 1;
    if (left === 0) this.#byProject.delete(projectId);
    else this.#byProject.set(projectId, left);
    this.#total -= 1;
    if (this.#total > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #announce(set: FlagSet): Promise<void> {
    const name = nameOf(set.projectId, set.environment);
    this.#changedAt.set(name, performance.now());
    const text = changeText(set);
    let left = slice;
    // One that comes meanwhile is sent it, too, which does no harm.
    for (const listener of this.#byName.get(name) ?? []) {
      write(listener, text);
      left -= 1;
      if (left > 0) continue;
      left = slice;
      await new Promise(setImmediate);
    }
  }

  #tick(): void {
    const now = performance.now();
    const isOver = !this.#deps.health.accepting();
    for (const listeners of this.#byName.values()) {
      for (const listener of listeners) {
        if (isOver || now > listener.endsAt) listener.res.end();
        else if (now - listener.quietSince >= keepAliveMs) write(listener, ': keep-alive\n\n');
      }
    }
  }
}

const write = (listener: Listener, text: string): void => {
  const { res } = listener;
  if (res.destroyed || res.writableEnded) return;
  if (res.writableLength > maxUnread) return void res.destroy();
  listener.quietSince = performance.now();
  res.write(text);
};

const known = new WeakMap<Deps['flags'], Listeners>();

const listenersOf = (deps: Deps): Listeners => {
  const present = known.get(deps.flags) ?? new Listeners(deps);
  known.set(deps.flags, present);
  return present;
};

const maxOf = (plan: Plan, config: Config): number => {
  if (plan === 'enterprise') return config.PLINTH_FLAG_LISTENERS;
  return plan === 'pro' ? config.PLINTH_FLAG_LISTENERS_PRO : config.PLINTH_FLAG_LISTENERS_FREE;
};

/** While PostgreSQL is away the limit is that of the smallest plan. */
const planOf = async (deps: Deps, projectId: string): Promise<Plan> => {
  const project = await deps.keys.findProject(projectId).catch(() => null);
  if (project === undefined) throw notFound('project');
  return project?.plan ?? 'free';
};

/**
 * Changes of an environment's flags as server-sent events, without the flags: `{"type":"refetchEvaluation","etag":…}`.
 * A client that comes back with a Last-Event-ID of before a change is sent one at once.
 * @throws {ServiceError} `not_found`, `rate_limited`
 */
export const streamFlagChanges = async (deps: Deps, request: RawRequest, grant: StreamGrant): Promise<RawReply> => {
  const { projectId, environment } = grant;
  const listeners = listenersOf(deps);
  const max = maxOf(await planOf(deps, projectId), deps.config);
  listeners.requireRoom(projectId, max);
  const set = await deps.flags.sets.get({ id: projectId, org_id: projectId }, environment);
  if (set === null) throw notFound('environment');
  const last = request.header('last-event-id');
  const isBehind = last === '' ? listeners.isRecent(nameOf(projectId, environment)) : last !== String(set.version);
  // Others may have come while the flags were loaded.
  listeners.requireRoom(projectId, max);
  const { res } = request.context;
  if (res.destroyed) return new RawReply(null);
  request.context.respond = false;
  res.writeHead(200, { ...eventStreamHeaders, 'Content-Type': eventStreamType });
  res.write(isBehind ? changeText(set) : `id: ${set.version}\n\n`);
  listeners.add(res, { projectId, environment });
  return new RawReply(null, eventStreamType);
};
