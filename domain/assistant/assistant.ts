import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Ai } from '#domain/ai/ai.ts';
import { defaultChatModel } from '#domain/ai/gateway/models.ts';
import type { AiCaller, Gateway } from '#domain/ai/gateway/types.ts';
import type { SchemaCache } from '#domain/data-api/schema/schema.ts';
import type { Platform } from '#domain/platform.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Disconnection } from '#lib/disconnection.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type AssistantContext, type ContextDeps, contextOf, promptOf } from './context.ts';

/*
 * Answers to questions about a project. `context.ts` writes what the model learns of the project and the prompt around
 * it. Callers who ask the same at once share one answer while it is written; answers are cached for five minutes.
 */

/** An answer that is being written, for all who wait for it. */
export interface SharedAnswer {
  /** Resolves with the first piece, or at the end; rejects when it fails before. */
  readonly started: Promise<void>;
  /** The whole answer. */
  readonly whole: Promise<string>;
  /** Yields the pieces so far, then those that come. Throws where the stream breaks. */
  readonly pieces: () => AsyncGenerator<string, void>;
  /** One more waits, until it leaves; once all have left, the writing is stopped. */
  readonly join: (waiter: Disconnection) => void;
}

/** Writes the answer piece by piece; the signal is aborted when the last reader has left. */
type Writer = (signal: AbortSignal, emit: (piece: string) => void) => Promise<void>;

/** An answer is short: written pieces are kept for later readers, and no slow reader delays the others. */
export const shareAnswer = (write: Writer): SharedAnswer & { readonly signal: AbortSignal } => {
  const controller = new AbortController();
  const started = Promise.withResolvers<void>();
  let text = '';
  let ended = false;
  let waiting = 0;
  let next = Promise.withResolvers<void>();

  const notify = (): void => {
    next.resolve();
    next = Promise.withResolvers();
  };
  const emit = (piece: string): void => {
    text += piece;
    started.resolve();
    notify();
  };
  const whole = write(controller.signal, emit)
    .then(() => text)
    .finally(() => {
      ended = true;
      notify();
    });
  whole.then(() => started.resolve(), started.reject);
  // Waiting readers learn of the end by what they wait for; all of them may have left.
  started.promise.catch(() => undefined);

  return {
    started: started.promise,
    whole,
    signal: controller.signal,
    pieces: async function* pieces() {
      for (let sent = 0; ;) {
        const more = next.promise;
        const piece = text.slice(sent);
        sent += piece.length;
        if (piece !== '') yield piece;
        else if (ended) break;
        else await more;
      }
      await whole;
    },
    join: (waiter) => {
      waiting += 1;
      const leave = (): void => {
        waiting -= 1;
        if (waiting === 0 && !ended) controller.abort();
      };
      if (waiter.aborted) leave();
      else waiter.addEventListener('abort', leave, { once: true });
    },
  };
};

type Owner = Pick<Project, 'id' | 'data_key'>;

/** Answers for five minutes, for all processes. Without Redis there are none. */
export interface AnswerCache {
  readonly find: (project: Owner, key: string) => Promise<string | null>;
  readonly store: (project: Owner, key: string, answer: string) => Promise<void>;
}

interface AnswerCacheOptions {
  readonly redis: Redis;
  readonly prefix: string;
  readonly sealer: (project: Owner) => Sealer;
  readonly log: Log;
}

const cacheTtlSeconds = 300;
const maxCachedBytes = 256 * 1024;

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
    store: async (project, key, answer) => {
      if (Buffer.byteLength(answer) > maxCachedBytes) return;
      const sealed = sealer(project).seal(aboutAnswer(key), answer);
      await redis.set(nameOf(project, key), sealed, 'EX', cacheTtlSeconds).catch(without);
    },
  };
};

interface Question {
  readonly message: string;
  /** Left out: the usual one of the first provider that the project has a key for. */
  readonly model?: string | undefined;
}

export interface Exchange extends Pick<SharedAnswer, 'started' | 'whole' | 'pieces'> {
  readonly contextUsed: readonly string[];
  /** Whether the answer was written for another caller; known once it has started. */
  readonly cached: () => boolean;
}

/** Answers questions about a project. */
export interface Assistant {
  /**
   * @param caller whose signal says when the one who asks leaves
   * @throws {ServiceError} what the gateway throws, also from what is returned
   */
  readonly ask: (caller: AiCaller, question: Question) => Promise<Exchange>;
}

interface AssistantDeps extends ContextDeps {
  readonly gateway: Pick<Gateway, 'stream' | 'resolve' | 'models'>;
  readonly cache: AnswerCache;
}

/** An answer under way: whether it came from the cache is known with its first piece. */
interface Answering {
  readonly answer: SharedAnswer & { readonly signal: AbortSignal };
  isCached: boolean;
}

/** `provider/id` */
const modelFor = async ({ gateway }: AssistantDeps, { project }: AiCaller, wanted?: string): Promise<string> => {
  if (wanted === undefined) return defaultChatModel(gateway, project);
  const { provider, model } = await gateway.resolve(project, wanted, 'chat');
  return `${provider}/${model}`;
};

/** The key of an answer: the whole prompt, so the version of each part of it. */
const keyOf = (projectId: string, model: string, messages: unknown): string =>
  createHash('sha256')
    .update(JSON.stringify([projectId, model, messages]))
    .digest('base64url');

interface AnswerRequest {
  readonly caller: AiCaller;
  readonly key: string;
  readonly model: string;
  readonly messages: ReturnType<typeof promptOf>;
}

const emptyAnswer = (): ServiceError => new ServiceError('provider_bad_output', 'The model answered with no text.');

/** Writes an answer and caches it once it is whole; one that failed is not cached. */
const write = async (
  { gateway, cache }: AssistantDeps,
  { caller, key, model, messages }: AnswerRequest,
  emit: (piece: string) => void,
): Promise<void> => {
  const stream = await gateway.stream(caller, { model, messages });
  let text = '';
  for await (const pieces of stream.pieces) {
    const more = pieces.map((piece) => piece.text).join('');
    text += more;
    if (more !== '') emit(more);
  }
  stream.end();
  if (text === '') throw emptyAnswer();
  await cache.store(caller.project, key, text);
};

/**
 * The same question about the same state of a project goes to the model once: callers that come while it is answered
 * share that answer (in this process); callers within five minutes get the cached one (in all processes).
 */
const createAssistant = (deps: AssistantDeps): Assistant => {
  const underWay = new Map<string, Answering>();

  const begin = (request: AnswerRequest): Answering => {
    const { project } = request.caller;
    const answer = shareAnswer(async (signal, emit) => {
      const known = await deps.cache.find(project, request.key);
      if (known === null) return write(deps, { ...request, caller: { ...request.caller, signal } }, emit);
      answering.isCached = true;
      return emit(known);
    });
    const answering: Answering = { answer, isCached: false };
    underWay.set(request.key, answering);
    const forget = (): void => {
      if (underWay.get(request.key) === answering) underWay.delete(request.key);
    };
    answer.signal.addEventListener('abort', forget);
    answer.whole.then(forget, forget);
    return answering;
  };

  const exchange = (request: AnswerRequest, { used }: AssistantContext): Exchange => {
    const present = underWay.get(request.key);
    const answering = present ?? begin(request);
    const { answer } = answering;
    answer.join(request.caller.signal);
    const { started, whole, pieces } = answer;
    return { started, whole, pieces, contextUsed: used, cached: () => present !== undefined || answering.isCached };
  };

  return {
    ask: async (caller, { message, model: wanted }) => {
      const { id } = caller.project;
      const [model, context] = await Promise.all([modelFor(deps, caller, wanted), contextOf(deps, id, message)]);
      const messages = promptOf(context, message);
      return exchange({ caller, key: keyOf(id, model, messages), model, messages }, context);
    },
  };
};

interface AssistantOptions {
  readonly platform: Pick<Platform, 'db' | 'projects'>;
  readonly ai: Pick<Ai, 'gateway'>;
  readonly schemas: Pick<SchemaCache, 'get'>;
  readonly redis: Redis;
  readonly prefix: string;
  readonly log: Log;
}

export const openAssistant = ({ platform, ai, schemas, redis, prefix, log }: AssistantOptions): Assistant => {
  const { sealer, tenantDb } = platform.projects;
  const cache = createAnswerCache({ redis, prefix, sealer, log });
  return createAssistant({ db: platform.db, tenantDb, schemas, gateway: ai.gateway, cache });
};
