import { createHmac, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Sealer } from '#lib/secrets.ts';

/**
 * The tokens in addresses of event streams. They open one environment's stream of changes, which says that something
 * changed and not what. A key has no place there: addresses are logged on their way.
 */

/** A token is the same for an hour, so that clients keep their connection, and works for the one after that. */
const periodMs = 3600_000;
const macBytes = 16;

/** The stream that a token opens. */
export interface StreamGrant {
  readonly projectId: string;
  readonly environment: string;
}

export interface StreamTokens {
  readonly of: (grant: StreamGrant) => string;
  /** Null: it is none of ours, or has expired. */
  readonly open: (token: string) => StreamGrant | null;
}

const form = /^([0-9a-f-]{36})\.([a-z][a-z0-9_-]{0,62})\.(\d{1,9})\.([\w-]{22})$/;

export const createStreamTokens = (sealer: Pick<Sealer, 'keyFor'>, now: () => number = Date.now): StreamTokens => {
  const key = sealer.keyFor('flag-streams');
  // A signature takes 4 µs, and each answer for all flags has one.
  const made = new LRUCache<string, string>({ max: 10_000 });
  const signed = (text: string): string =>
    `${text}.${createHmac('sha256', key).update(text).digest().subarray(0, macBytes).toString('base64url')}`;
  const tokenIn = ({ projectId, environment }: StreamGrant, period: number): string => {
    const text = `${projectId}.${environment}.${period}`;
    const known = made.get(text) ?? signed(text);
    made.set(text, known);
    return known;
  };
  const periodNow = (): number => Math.floor(now() / periodMs);
  return {
    of: (grant) => tokenIn(grant, periodNow()),
    open: (token) => {
      const [, projectId, environment, period] = form.exec(token) ?? [];
      if (projectId === undefined || environment === undefined || period === undefined) return null;
      const wanted = Buffer.from(signed(`${projectId}.${environment}.${period}`));
      const given = Buffer.from(token);
      if (wanted.length !== given.length || !timingSafeEqual(wanted, given)) return null;
      const age = periodNow() - Number(period);
      return age >= 0 && age <= 1 ? { projectId, environment } : null;
    },
  };
};
