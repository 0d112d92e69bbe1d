import { ServiceError } from '#lib/errors.ts';
import type { ExecutionContext } from 'ava';
import type { AiCaller, ProviderGateway } from '#domain/ai/gateway/types.ts';
import { createGateway } from '#domain/ai/gateway/gateway.ts';
import { createInFlight } from '#domain/ai/gateway/in-flight.ts';
import type { ProviderKey } from '#domain/ai/keys/keys.ts';
import type { KnownModel, Prices } from '#domain/ai/prices/prices.ts';
import { type ProviderName, providerFacts } from '#domain/ai/providers/providers.ts';
import { type Times, usualTimes } from '#domain/ai/providers/transport.ts';
import type { CallEnd, CallIntent, CallLog } from '#domain/ai/usage/usage.ts';
import { type ByteBudgetOptions, createByteBudget } from '#lib/byte-budget.ts';
import type { Disconnection } from '#lib/disconnection.ts';
import { createEgress } from '#lib/egress.ts';
import { createJsonParser } from '#lib/json-parser.ts';
import { type AiUpstream, aiUpstreamFor } from '#test/support/ai-upstream.ts';
import { memoryLog } from '#test/support/platform.ts';

export const testKey = 'sk-the-secret-of-a-test';

/** 1 USD and 2 USD for a million tokens. */
export const knownModel = (provider: ProviderName, id: string, fields: Partial<KnownModel> = {}): KnownModel => ({
  provider,
  id,
  type: 'chat',
  contextWindow: 8192,
  maxOutput: 1000,
  dimensions: null,
  price: { input: 1000, output: 2000 },
  ...fields,
});

const pricesOf = (models: readonly KnownModel[]): Prices => ({
  find: (provider, id) => models.find((model) => model.provider === provider && model.id === id),
  providersOf: (id) => models.filter((model) => model.id === id).map(({ provider }) => provider),
});

/** The result of a call. */
interface Recorded {
  readonly intent: CallIntent;
  end: CallEnd | null;
}

/** Records calls in memory. */
interface PlayedLog extends CallLog {
  readonly calls: readonly Recorded[];
}

interface LogBehaviour {
  /** When intents are recorded; rejects: they are not. */
  readonly recorded?: (intent: CallIntent) => Promise<void>;
}

const playLog = ({ recorded = () => Promise.resolve() }: LogBehaviour): PlayedLog => {
  const calls: Recorded[] = [];
  return {
    calls,
    begin: (intent) => {
      const call: Recorded = { intent, end: null };
      calls.push(call);
      return {
        recorded: recorded(intent),
        end: (end) => {
          call.end ??= end;
        },
      };
    },
    settled: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
};

/** Somebody who can leave. */
export class Client implements Disconnection {
  readonly #listeners = new Set<() => void>();
  aborted = false;

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.delete(listener);
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  leave(): void {
    this.aborted = true;
    for (const listener of this.#listeners) listener();
  }
}

export interface AloneOptions extends LogBehaviour {
  /** By provider: the base URL; null: the vendor's own. Left out: OpenAI's dialect of the upstream. */
  readonly keys?: (upstream: AiUpstream) => Partial<Record<ProviderName, string | null>>;
  readonly models?: readonly KnownModel[];
  readonly times?: Partial<Times>;
  readonly limit?: number;
  readonly hardBudget?: boolean;
  readonly apiKey?: string;
  readonly answerBytes?: ByteBudgetOptions;
  /** The allowed addresses; otherwise loopback. */
  readonly allow?: string;
}

export interface Alone {
  readonly gateway: ProviderGateway;
  readonly upstream: AiUpstream;
  readonly calls: readonly Recorded[];
  readonly client: Client;
  readonly caller: AiCaller;
  /** The keys of the project from now on. */
  readonly setKeys: (keys: Partial<Record<ProviderName, string | null>>) => void;
  readonly logged: () => string;
}

const keyOf = (provider: ProviderName, baseUrl: string | null, apiKey: string, version: number): ProviderKey => ({
  id: provider,
  provider,
  version,
  target: { baseUrl: baseUrl ?? providerFacts[provider].baseUrl, apiKey, isVendor: baseUrl === null },
});

/** A gateway with a played provider, and with keys, prices and records in memory. */
export const gatewayAlone = async (t: ExecutionContext, options: AloneOptions = {}): Promise<Alone> => {
  const { models = [], limit = 5000, hardBudget = false, apiKey = testKey, allow = '127.0.0.0/8' } = options;
  const upstream = await aiUpstreamFor(t);
  const egress = createEgress({ allow, local: true });
  const log = playLog(options);
  const { log: lines, text } = memoryLog();
  let version = 0;
  let keys: ReadonlyMap<ProviderName, ProviderKey> = new Map();
  const setKeys: Alone['setKeys'] = (wished) => {
    version += 1;
    keys = new Map(
      (Object.entries(wished) as [ProviderName, string | null][]).map(([provider, baseUrl]) => [
        provider,
        keyOf(provider, baseUrl, apiKey, version),
      ]),
    );
  };
  setKeys(options.keys?.(upstream) ?? { openai: upstream.openai });
  const json = createJsonParser();
  const gateway = createGateway({
    keys: {
      all: () => Promise.resolve({ byProvider: keys, hardBudget }),
      find: (_project, provider) => Promise.resolve(keys.get(provider)),
      forget: () => undefined,
    },
    prices: pricesOf(models),
    calls: log,
    inFlight: createInFlight({ redis: null, prefix: 'x', limits: { free: limit, pro: limit, enterprise: limit } }),
    answerBytes: createByteBudget(options.answerBytes ?? { perOwner: 64_000_000, total: 256_000_000 }),
    json,
    egress,
    log: lines,
    times: { ...usualTimes, ...options.times },
  });
  t.teardown(async () => {
    await gateway.close();
    await json.close();
    await egress.close();
  });
  const client = new Client();
  const project = { id: crypto.randomUUID(), plan: 'free', data_key: Buffer.alloc(0) } as const;
  const caller: AiCaller = { project, kind: 'chat', requestId: 'a-request', signal: client };
  return { gateway, upstream, calls: log.calls, client, caller, setKeys, logged: text };
};

/** A question with one user message. */
export const chatRequest = (content: string, fields: object = {}) => ({
  model: 'openai/gpt-4o',
  messages: [{ role: 'user' as const, content }],
  ...fields,
});

/** The error of a refused call. */
export const refused = async (promise: Promise<unknown>): Promise<ServiceError> => {
  try {
    await promise;
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
  throw new Error('it was not refused');
};
