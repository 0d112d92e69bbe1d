import type { Redis } from 'ioredis';
import type { Project } from '#domain/projects/store.ts';
import type { Log } from '#lib/log.ts';
import type { Sealer } from '#lib/secrets.ts';

type Owner = Pick<Project, 'id' | 'data_key'>;

/** Answers for five minutes, for all processes. Without Redis there are none. */
export interface AnswerCache {
  readonly find: (project: Owner, key: string) => Promise<string | null>;
  readonly keep: (project: Owner, key: string, answer: string) => Promise<void>;
}

export interface AnswerCacheOptions {
  readonly redis: Redis;
  readonly prefix: string;
  readonly sealer: (project: Owner) => Sealer;
  readonly log: Log;
}

const cacheTtlSeconds = 300;
const maxKeptLength = 256 * 1024;

const aboutAnswer = (key: string): string => `assistant:${key}`;

/** @returns answers are sealed with their project's data key: Redis has less to hide than Postgres */
export const createAnswerCache = ({ redis, prefix, sealer, log }: AnswerCacheOptions): AnswerCache => {
  const nameOf = ({ id }: Owner, key: string): string => `${prefix}:assistant:${id}:${key}`;
  const without = (error: unknown): null => {
    log.debug({ err: error }, 'the assistant works without its cache');
    return null;
  };
  return {
    find: async (project, key) => {
      try {
        const sealed = await redis.getBuffer(nameOf(project, key));
        return sealed && sealer(project).open(aboutAnswer(key), sealed);
      } catch (error) {
        return without(error);
      }
    },
    keep: async (project, key, answer) => {
      if (Buffer.byteLength(answer) > maxKeptLength) return;
      const sealed = sealer(project).seal(aboutAnswer(key), answer);
      await redis.set(nameOf(project, key), sealed, 'EX', cacheTtlSeconds).catch(without);
    },
  };
};
