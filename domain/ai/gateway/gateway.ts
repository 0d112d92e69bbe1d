import type { ByteBudget } from '#lib/byte-budget.ts';
import type { Egress } from '#lib/egress.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JsonParser } from '#lib/json-parser.ts';
import type { Log } from '#lib/log.ts';
import { type ProviderName, providerFacts } from '../providers/providers.ts';
import { type ProviderKeys, notConfigured } from '../keys/keys.ts';
import type { KnownModel, Prices } from '../prices/prices.ts';
import { type EmbeddingRequest, ProviderFault } from '../providers/dialect.ts';
import { type Times, createTransport } from '../providers/transport.ts';
import type { CallLog } from '../usage/calls.ts';
import type { AiCaller, AiModel, ProviderGateway } from './types.ts';
import type { ChatRequest } from '../chat.ts';
import { type Line, createAnswers, askChat, askEmbeddings, askModels, openChat, testKey } from './ask.ts';
import { bounded, inputTokens, promptTokens, requirePrice, reserveFor, reserveForInput, tierOf } from './estimate.ts';
import { sentenceOf } from './faults.ts';
import type { InFlight } from './in-flight.ts';
import { createModelLists, modelsOf, createRouter } from './models.ts';
import { type Route, type Spending, RunningCall } from './running-call.ts';

/**
 * A field that the provider's dialect cannot express would be lost on the way: the request is refused instead.
 * @throws {ServiceError} `not_supported`
 */
const requireSupported = (provider: ProviderName, request: ChatRequest | EmbeddingRequest): void => {
  const { dialect, label } = providerFacts[provider];
  if (dialect === 'openai') return;
  const foreign = 'messages' in request ? request.onlyOpenAi : tokensIn(request);
  if (foreign === undefined) return;
  throw new ServiceError('not_supported', `${label} does not take ${foreign}.`, {
    hint: 'Providers that speak OpenAI’s dialect do.',
  });
};

const tokensIn = ({ input }: EmbeddingRequest): string | undefined =>
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

type Running = ReturnType<typeof createRunning>;
type Parts = GatewayDeps & Pick<ReturnType<typeof open>, 'line' | 'quick' | 'router' | 'lists' | 'running'>;

/** Lists and tests ask for nothing that takes time. */
const quickTimes: Times = { firstByteMs: 10_000, idleMs: 10_000, totalMs: 30_000 };

const shorterOf = (times: Times | undefined): Times => ({
  firstByteMs: Math.min(quickTimes.firstByteMs, times?.firstByteMs ?? Infinity),
  idleMs: Math.min(quickTimes.idleMs, times?.idleMs ?? Infinity),
  totalMs: Math.min(quickTimes.totalMs, times?.totalMs ?? Infinity),
});

const open = (deps: GatewayDeps) => {
  const answers = createAnswers(deps.json);
  const line: Line = { transport: createTransport(deps.egress, deps.times), answers };
  const quick: Line = { transport: createTransport(deps.egress, shorterOf(deps.times)), answers };
  const lists = createModelLists((key) => askModels(quick, key));
  const router = createRouter({ keys: deps.keys, prices: deps.prices, lists });
  const running: Running = createRunning(deps);
  return { line, quick, lists, router, running };
};

const listModels = async (
  { keys, lists, prices, log }: Parts,
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

/** Where a request goes, in the form in which its budget can grant it. */
const openRoutes = ({ router }: Pick<Parts, 'router'>) => {
  const routeOf = async (project: AiCaller['project'], model: string, type: AiModel['type']): Promise<Route> => {
    const route = await router(project, model, type);
    requirePrice(route);
    return route;
  };
  return {
    routeOf,
    chat: async (project: AiCaller['project'], incoming: ChatRequest) => {
      const route = await routeOf(project, incoming.model, 'chat');
      requireSupported(route.provider, incoming);
      const request = bounded({ ...incoming, model: route.model }, route);
      const reserveNanoUsd = reserveFor(request, route.known);
      const spending: Spending = { promptTokens: promptTokens(request), reserveNanoUsd, tier: tierOf(request) };
      return { route, request, spending };
    },
  };
};

/** See `Gateway`. */
export const createGateway = (deps: GatewayDeps): ProviderGateway => {
  const parts: Parts = { ...deps, ...open(deps) };
  const { router, running, line, quick } = parts;
  const routes = openRoutes(parts);
  return {
    chat: async (caller, incoming) => {
      const { route, request, spending } = await routes.chat(caller.project, incoming);
      return running.run({ caller, route, spending }, (call) => askChat(line, call, request));
    },
    stream: async (caller, incoming) => {
      const { route, request, spending } = await routes.chat(caller.project, incoming);
      return running.run({ caller, route, spending }, (call) => openChat(line, call, request));
    },
    embed: async (caller, request) => {
      const route = await routes.routeOf(caller.project, request.model, 'embedding');
      requireSupported(route.provider, request);
      const reserveNanoUsd = reserveForInput(request.input, route.known);
      const spending = { promptTokens: inputTokens(request.input), reserveNanoUsd };
      return running.run({ caller, route, spending }, (call) => askEmbeddings(line, call, request));
    },
    test: async (caller, provider) => {
      const key = await deps.keys.find(caller.project, provider);
      if (key === undefined) throw notConfigured(provider);
      const route: Route = { provider, model: '', key, known: freeOf(provider), hardBudget: false };
      const spending = { promptTokens: 0, reserveNanoUsd: 0 };
      return testKey(quick, (work) => running.run({ caller, route, spending }, work));
    },
    models: (project) => listModels(parts, project),
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
