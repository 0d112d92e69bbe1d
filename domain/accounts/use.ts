import { LRUCache } from 'lru-cache';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { SignedIn } from './callers.ts';
import { cookieDays, cookieHours } from './sign-ins.ts';

/** Notes that tokens are used, without a write for each request. */
export interface CredentialUse {
  readonly note: (caller: Pick<SignedIn, 'signInId' | 'credential'>) => void;
  /** The same for an API key of a project. */
  readonly noteKey: (keyId: string) => void;
  /** Waits for what is being written. */
  readonly stop: () => Promise<void>;
}

/** The least time between two writes about one token by one process. */
const everyMs = 60_000;
const maxRemembered = 20_000;

const notePersonal = `update personal_tokens set last_used_at = now()
  where id = $1 and (last_used_at is null or last_used_at < now() - interval '1 minute')`;

/** A cookie that is used lasts for another twelve hours, but never longer than thirty days. */
const noteCookie = `with seen as (update sign_ins set last_seen_at = now() where id = $1 returning created_at)
  update sign_in_tokens t set expires_at =
    least(now() + make_interval(hours => ${cookieHours}), seen.created_at + make_interval(days => ${cookieDays}))
  from seen where t.sign_in_id = $1 and t.kind = 'cookie'`;

const noteApiKey = `insert into api_key_uses as u (key_id, last_used_at) select id, now() from api_keys where id = $1
  on conflict (key_id) do update set last_used_at = now() where u.last_used_at < now() - interval '1 minute'`;

/** A failed write is not repeated: the next use notes it. */
export const createCredentialUse = (db: ControlDb, log: Log): CredentialUse => {
  const noted = new LRUCache<string, true>({ max: maxRemembered, ttl: everyMs });
  const writing = new Set<Promise<unknown>>();
  const write = (id: string, sql: string): void => {
    noted.set(id, true);
    const written = db
      .query(sql, [id])
      .catch((error: unknown) => log.warn({ err: error }, 'the use of a token could not be noted'))
      .finally(() => writing.delete(written));
    writing.add(written);
  };
  return {
    note: ({ signInId, credential: { kind } }) => {
      if (kind === 'access' || noted.has(signInId)) return;
      write(signInId, kind === 'personal' ? notePersonal : noteCookie);
    },
    noteKey: (keyId) => {
      if (!noted.has(keyId)) write(keyId, noteApiKey);
    },
    stop: async () => {
      await Promise.all(writing);
    },
  };
};
