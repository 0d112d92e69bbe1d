import type { Redis } from 'ioredis';
import type { Platform } from '#domain/platform.ts';
import { createByteBudget } from '#lib/byte-budget.ts';
import type { Config } from '#lib/config.ts';
import type { Egress } from '#lib/egress.ts';
import type { JsonParser } from '#lib/json-parser.ts';
import type { Log } from '#lib/log.ts';
import type { ProviderGateway } from './gateway/types.ts';
import { createGateway } from './gateway/gateway.ts';
import { createInFlight } from './gateway/in-flight.ts';
import { type ProviderKeys, createProviderKeys } from './keys/keys.ts';
import { type Prices, openPrices } from './prices/prices.ts';
import { usualTimes } from './providers/transport.ts';
import { type CallLogDeps, createCallLog } from './usage/call-log.ts';
import type { CallLog } from './usage/usage.ts';

/*
 * The way through this folder: a chat (`chat.ts` has its shapes) enters at `gateway/gateway.ts`, where `models.ts`
 * finds the provider by the model's name and the project's `keys/`, and `estimate.ts` the cost by `prices/`.
 * `running-call.ts` holds one call from its intent to its end, `ask.ts` makes it over one of the three dialects in
 * `providers/`, and `usage/` keeps its row and the project's budget. Built on the gateway: `arena.ts` asks several
 * models, `generators.ts` has models write SQL from `schema-context.ts`, and `sql-guard/` decides what of it may run.
 */

/** All that has to do with models in one process. */
export interface Ai {
  readonly gateway: ProviderGateway;
  readonly keys: ProviderKeys;
  readonly calls: CallLog;
  readonly prices: Prices;
  /** Loads what the first call would otherwise wait for; for a process that has started, in the background. */
  readonly warmUp: () => void;
  /** Ends what runs and records it. */
  readonly close: () => Promise<void>;
}

interface AiOptions {
  readonly config: Pick<
    Config,
    | 'PLINTH_AI_PRICES'
    | 'PLINTH_AI_FIRST_BYTE_MS'
    | 'PLINTH_AI_ANSWERS_PER_PROJECT'
    | 'PLINTH_AI_ANSWERS_PER_PROCESS'
    | 'PLINTH_REDIS_PREFIX'
  >;
  readonly json: Pick<JsonParser, 'read'>;
  readonly platform: Pick<Platform, 'db' | 'projects'>;
  readonly egress: Egress;
  /** For counting what all processes have under way; null: only this one's calls count. */
  readonly redis: Redis | null;
  /** Whether this process is subscribed to other processes' changes: only then are keys cached. */
  readonly isSubscribed: () => boolean;
  /** Hears of calls whose ends were recorded. */
  readonly onEnded: NonNullable<CallLogDeps['onEnded']>;
  readonly log: Log;
}

export const openAi = async (options: AiOptions): Promise<Ai> => {
  const { config, platform, egress, redis, json, isSubscribed, onEnded, log } = options;
  const { db, projects } = platform;
  const prices = await openPrices(config.PLINTH_AI_PRICES);
  const keys = createProviderKeys({ db, sealer: projects.sealer, isSubscribed });
  const calls = createCallLog({ db, log, onEnded });
  const inFlight = createInFlight({ redis, prefix: config.PLINTH_REDIS_PREFIX });
  const answerBytes = createByteBudget({
    perOwner: config.PLINTH_AI_ANSWERS_PER_PROJECT,
    total: config.PLINTH_AI_ANSWERS_PER_PROCESS,
  });
  const times = { ...usualTimes, firstByteMs: config.PLINTH_AI_FIRST_BYTE_MS };
  const gateway = createGateway({ keys, prices, calls, inFlight, answerBytes, json, egress, log, times });
  return {
    gateway,
    keys,
    calls,
    prices,
    warmUp: () =>
      void prices
        .load()
        .catch((error: unknown) =>
          log.warn({ err: error }, 'the price table could not be loaded at the start; it is loaded on first use'),
        ),
    close: async () => {
      await gateway.close();
      await calls.close();
      await inFlight.close();
    },
  };
};
