import type { Redis } from 'ioredis';

/** Which budget a request counts against. `none`: the job limits bind it, or it is public and cheap. */
export type RateClass =
  | 'none'
  | 'dashboard'
  | 'sign-in'
  | 'refresh'
  | 'data'
  | 'ai'
  | 'flags'
  | 'hooks'
  | 'oauth'
  | 'files'
  | 'function';

/** A budget; those of the data API, of models, of flags and of calls without credentials are the plan's. */
export type RateName =
  | Exclude<RateClass, 'none' | 'data' | 'ai' | 'flags' | 'function'>
  | `${'data' | 'ai' | 'flags' | 'public'}-${'free' | 'pro'}`
  | 'public-address';

interface RateRule {
  readonly limit: number;
  readonly windowSeconds: number;
}

export interface RateVerdict extends RateRule {
  readonly allowed: boolean;
  readonly remaining: number;
  /** Until the window ends. */
  readonly resetSeconds: number;
}

export interface RateLimiter {
  /** Counts one request of `subject`; needs no round trip. */
  readonly take: (rateClass: RateName, subject: string) => RateVerdict;
  readonly close: () => void;
}

interface Counter {
  /** Requests seen by this process and not yet added to Redis. */
  untold: number;
  /** Requests of all processes, as far as known. */
  total: number;
}

interface Window {
  readonly number: number;
  readonly counters: Map<string, Counter>;
}

export interface RateLimiterOptions {
  /** Null: only this process is counted. */
  readonly redis: Redis | null;
  readonly prefix: string;
  readonly rules: Readonly<Record<RateName, RateRule>>;
  readonly now?: () => number;
}

const syncMs = 250;
/**
 * The callers that are counted in one window: memory is bounded, whatever the flood. Beyond them those that came first
 * are forgotten, and known again by Redis a moment later: were new ones refused, somebody with many addresses could lock
 * out all others.
 */
const maxSubjects = 50_000;

const counterOf = ({ counters }: Window, subject: string): Counter => {
  const present = counters.get(subject);
  if (present !== undefined) return present;
  const [first] = counters.size < maxSubjects ? [] : counters.keys();
  if (first !== undefined) counters.delete(first);
  const counter = { untold: 0, total: 0 };
  counters.set(subject, counter);
  return counter;
};

/**
 * Fixed windows, counted in the process and added up over all processes through Redis four times a second: the hot path
 * costs a map access. Several processes can together overshoot by the requests of a quarter of a second; while Redis is
 * away each process limits by itself.
 */
export const createRateLimiter = ({ redis, prefix, rules, now = Date.now }: RateLimiterOptions): RateLimiter => {
  const windows = new Map<string, Window>();

  const windowOf = (rateClass: string, rule: RateRule): Window => {
    const number = Math.floor(now() / 1000 / rule.windowSeconds);
    const present = windows.get(rateClass);
    if (present?.number === number) return present;
    const fresh = { number, counters: new Map<string, Counter>() };
    windows.set(rateClass, fresh);
    return fresh;
  };

  const publish = async (shared: Redis, rateClass: string, window: Window, ttl: number): Promise<void> => {
    const changed = [...window.counters].filter(([, counter]) => counter.untold > 0);
    if (changed.length === 0) return;
    const calls = shared.pipeline();
    for (const [subject, counter] of changed) {
      const key = `${prefix}:rate:${rateClass}:${window.number}:${subject}`;
      calls.incrby(key, counter.untold).expire(key, ttl);
      counter.untold = 0;
    }
    const answers = (await calls.exec()) ?? [];
    changed.forEach(([, counter], i) => {
      const [error, total] = answers[i * 2] ?? [null, 0];
      if (!error) counter.total = Math.max(counter.total, Number(total) + counter.untold);
    });
  };

  const sync = async (shared: Redis): Promise<void> => {
    if (shared.status !== 'ready') return;
    for (const [rateClass, window] of windows) {
      const rule = rules[rateClass as RateName];
      await publish(shared, rateClass, window, rule.windowSeconds * 2).catch(() => undefined);
    }
  };
  const timer = redis && setInterval(() => void sync(redis), syncMs).unref();

  return {
    take: (rateClass, subject) => {
      const rule = rules[rateClass];
      const counter = counterOf(windowOf(rateClass, rule), subject);
      counter.untold += 1;
      counter.total += 1;
      const resetSeconds = Math.ceil(rule.windowSeconds - ((now() / 1000) % rule.windowSeconds));
      return {
        ...rule,
        allowed: counter.total <= rule.limit,
        remaining: Math.max(0, rule.limit - counter.total),
        resetSeconds,
      };
    },
    close: () => {
      if (timer) clearInterval(timer);
    },
  };
};
