import type { ByteBudget } from '#lib/byte-budget.ts';
import type { Egress } from '#lib/egress.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JsonParser } from '#lib/json-parser.ts';
import type { Log } from '#lib/log.ts';
import type { ChatRequest } from '../chat.ts';
import { type ProviderKeys, notConfigured } from '../keys/keys.ts';
import type { KnownModel, Prices } from '../prices/prices.ts';
import { type EmbeddingRequest, ProviderFault } from '../providers/dialect.ts';
import { type ProviderName, providerFacts } from '../providers/providers.ts';
import { type Times, createTransport, usualTimes } from '../providers/transport.ts';
import type { CallLog } from '../usage/usage.ts';
import { type ProviderClient, askChat, askEmbeddings, askModels, createAnswers, openChat, testKey } from './ask.ts';
import { bounded, inputTokens, promptTokens, requirePrice, reserveFor, reserveForInput, tierOf } from './estimate.ts';
import { sentenceOf } from './faults.ts';
import type { InFlight } from './in-flight.ts';
import { type ModelLists, createModelLists, createRouter, modelsOf } from './models.ts';
import { type Route, type Spending, RunningCall } from './running-call.ts';
import type { AiCaller, AiModel, ProviderGateway } from './types.ts';

/*
 * The gateway to all models: `models.ts` finds out where a model's name leads, `estimate.ts` what the call may cost,
 * `in-flight.ts` bounds the calls under way, `running-call.ts` holds one call from its intent to its end, and `ask.ts`
 * makes it, with retries (`faults.ts`) and streams (`piece-reader.ts`). `types.ts` is what the callers see.
 */

/**
 * A field that the provider's dialect cannot express would be lost on the way: the request is refused instead.
 * @throws {ServiceError} `not_supported`
 */
const requireSupported = (provider: ProviderName, request: ChatRequest | EmbeddingRequest): void => {
  const { dialect, label } = providerFacts[provider];
  if (dialect === 'openai') return;
  const foreign = 'messages' in request ? request.onlyOpenAi : tokenNumbersIn(request);
  if (foreign === undefined) return;
  throw new ServiceError('not_supported', `${label} does not take ${foreign}.`, {
    hint: 'Providers that speak OpenAI’s dialect do.',
  });
};

const tokenNumbersIn = ({ input }: EmbeddingRequest): string | undefined =>
  input.some((one) => typeof one !== 'string') ? 'the numbers of tokens in place of text' : undefined;

interface GatewayDeps {
  readonly keys: ProviderKeys;
  readonly prices: Prices;
  readonly calls: CallLog;
  readonly inFlight: InFlight;
  /** Bytes of answers that are in memory, by project. */
  readonly answerBytes: Pick<ByteBudget, 'reserve'>;
  readonly json: Pick<JsonParser, 'read'>;
  readonly egress: Pick<Egress, 'check' | 'dispatcher'>;
  readonly log: Log;
  /** Left out: the usual ones. */
  readonly times?: Times;
}

/** The calls of this process that are under way. */
const createRunning = (deps: Pick<GatewayDeps, 'calls' | 'inFlight' | 'answerBytes'>) => {
  const running = new Set<RunningCall>();
  const over = (call: RunningCall): void => void running.delete(call);

  return {
    /** @throws what `work` throws, in the caller's terms */
    run: async <T>(
      of: { readonly caller: AiCaller; readonly route: Route; readonly spending: Spending },
      work: (call: RunningCall) => Promise<T>,
    ): Promise<T> => {
      const call = new RunningCall(deps, of, over);
      running.add(call);
      try {
        await call.admitted();
        return await work(call);
      } catch (error) {
        const failure = call.fail(error);
        await call.answerable();
        throw failure;
      }
    },
    /** They end as incomplete. */
    close: (): void => {
      for (const call of running) call.abort.abort('closing');
    },
  };
};

/** Lists and tests ask for nothing that takes time. */
const quickTimes = ({ firstByteMs, idleMs, totalMs }: Times): Times => ({
  firstByteMs: Math.min(firstByteMs, 10_000),
  idleMs: Math.min(idleMs, 10_000),
  totalMs: Math.min(totalMs, 30_000),
});

const listModels = async (
  { keys, prices, log }: GatewayDeps,
  lists: ModelLists,
  project: AiCaller['project'],
): ReturnType<ProviderGateway['models']> => {
  const configured = [...(await keys.all(project)).byProvider.values()];
  const answers = await Promise.all(
    configured.map(async (key) => {
      try {
        return { models: modelsOf(key, await lists.of(key), prices) };
      } catch (error) {
        if (!(error instanceof ProviderFault)) log.error({ err: error }, 'a list of models could not be read');
        const fault = error instanceof ProviderFault ? error : new ProviderFault('bad_answer', '');
        return { failed: { provider: key.provider, message: sentenceOf(key, fault) } };
      }
    }),
  );
  return {
    models: answers.flatMap(({ models }) => models ?? []),
    failed: answers.flatMap(({ failed }) => failed ?? []),
  };
};

/** A list of models is free: no budget has to grant it. */
const freeOf = (provider: ProviderName): KnownModel => ({
  provider,
  id: '',
  type: 'chat',
  contextWindow: null,
  maxOutput: null,
  dimensions: null,
  price: { input: 0, output: 0 },
});

/** A chat in the form in which its budget can grant it. */
const prepareChat = (route: Route, incoming: ChatRequest) => {
  requireSupported(route.provider, incoming);
  const request = bounded({ ...incoming, model: route.model }, route);
  const reserveNanoUsd = reserveFor(request, route.known);
  const spending: Spending = { promptTokens: promptTokens(request), reserveNanoUsd, tier: tierOf(request) };
  return { request, spending };
};

/** See `Gateway`. */
export const createGateway = (deps: GatewayDeps): ProviderGateway => {
  const { keys, prices, egress, times = usualTimes } = deps;
  const answers = createAnswers(deps.json);
  const client: ProviderClient = { transport: createTransport(egress, times), answers };
  const quickClient: ProviderClient = { transport: createTransport(egress, quickTimes(times)), answers };
  const lists = createModelLists((key) => askModels(quickClient, key));
  const router = createRouter({ keys, prices, lists });
  const running = createRunning(deps);

  const routeOf = async (project: AiCaller['project'], model: string, type: AiModel['type']): Promise<Route> => {
    const route = await router(project, model, type);
    requirePrice(route);
    return route;
  };
  return {
    chat: async (caller, incoming) => {
      const route = await routeOf(caller.project, incoming.model, 'chat');
      const { request, spending } = prepareChat(route, incoming);
      return running.run({ caller, route, spending }, (call) => askChat(client, call, request));
    },
    stream: async (caller, incoming) => {
      const route = await routeOf(caller.project, incoming.model, 'chat');
      const { request, spending } = prepareChat(route, incoming);
      return running.run({ caller, route, spending }, (call) => openChat(client, call, request));
    },
    embed: async (caller, request) => {
      const route = await routeOf(caller.project, request.model, 'embedding');
      requireSupported(route.provider, request);
      const reserveNanoUsd = reserveForInput(request.input, route.known);
      const spending = { promptTokens: inputTokens(request.input), reserveNanoUsd };
      return running.run({ caller, route, spending }, (call) => askEmbeddings(client, call, request));
    },
    test: async (caller, provider) => {
      const key = await keys.find(caller.project, provider);
      if (key === undefined) throw notConfigured(provider);
      const route: Route = { provider, model: '', key, known: freeOf(provider), hardBudget: false };
      const spending = { promptTokens: 0, reserveNanoUsd: 0 };
      return testKey(quickClient, (work) => running.run({ caller, route, spending }, work));
    },
    models: (project) => listModels(deps, lists, project),
    resolve: async (project, name, type) => {
      const { provider, model } = await router(project, name, type);
      return { provider, model };
    },
    close: () => {
      running.close();
      return Promise.resolve();
    },
  };
};
