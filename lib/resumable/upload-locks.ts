import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Lock, Locker } from '@tus/server';
import type { Redis } from 'ioredis';

/** Another request works on the upload, and has not stopped in time; tus clients try again after 423. */
export class UploadLocked extends Error {}

export interface UploadLockOptions {
  readonly redis: Redis;
  /** PLINTH_REDIS_PREFIX */
  readonly prefix: string;
  /** How long a request waits for the one that holds the lock; 10 s unless given. */
  readonly waitMs?: number;
}

// A process that dies holds its locks for so long.
const leaseMs = 15_000;
// The holder renews its lease, and learns whether another request waits.
const renewEveryMs = 1000;
// Without an answer of Redis for so long the holder stops writing: its lease may end 7 s later.
const giveUpAfterMs = 8000;
const retryEveryMs = 150;

const renewScript = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return -1 end
redis.call('pexpire', KEYS[1], ARGV[2])
return redis.call('exists', KEYS[2])`;

const releaseScript = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1], KEYS[2]) end
return 0`;

/** Renews the lease until it is stopped. `lost` is called when another request waits, or the lease may be lost. */
const renewing = (renew: () => Promise<unknown>, lost: () => void): (() => void) => {
  let renewedAt = performance.now();
  const round = async (): Promise<void> => {
    const answer = await renew().catch(() => null);
    if (answer === 0 || answer === 1) renewedAt = performance.now();
    if (answer === 1 || answer === -1 || performance.now() - renewedAt > giveUpAfterMs) lost();
  };
  const timer = setInterval(() => void round(), renewEveryMs);
  timer.unref();
  return () => clearInterval(timer);
};

/**
 * One request at a time works on an upload, in whichever process. A request that finds another one at work asks it to
 * stop, as tus advises: the older one is most often that of a connection that the client has lost. The lock is a lease
 * in Redis; who cannot renew it stops before it ends.
 */
export const createUploadLocks = ({ redis, prefix, waitMs = 10_000 }: UploadLockOptions): Locker => ({
  newLock: (id): Lock => {
    const [key, wanted, token] = [`${prefix}:upload:${id}`, `${prefix}:upload:${id}:wanted`, randomUUID()];
    let stop: (() => void) | undefined;
    const isTaken = async (): Promise<boolean> => (await redis.set(key, token, 'PX', leaseMs, 'NX')) === 'OK';
    return {
      lock: async (signal, requestRelease) => {
        const deadline = performance.now() + waitMs;
        while (!(await isTaken())) {
          if (signal.aborted || performance.now() > deadline) throw new UploadLocked();
          await redis.set(wanted, '1', 'PX', 5 * renewEveryMs);
          await delay(retryEveryMs);
        }
        await redis.del(wanted);
        stop = renewing(
          () => redis.eval(renewScript, 2, key, wanted, token, leaseMs),
          () => void requestRelease(),
        );
      },
      // A lease that cannot be released ends by itself.
      unlock: async () => {
        stop?.();
        await redis.eval(releaseScript, 2, key, wanted, token).catch(() => {});
      },
    };
  },
});
