import { LRUCache } from 'lru-cache';
import { ServiceError } from '#lib/errors.ts';
import { nearest } from '#lib/nearest.ts';
import { type ProjectKeys, type ProviderKey, type ProviderKeys, notConfigured } from '../keys/keys.ts';
import type { KnownModel, Price, Prices } from '../prices/prices.ts';
import type { ListedModel } from '../providers/dialect.ts';
import { type ProviderName, isProviderName, providerFacts, providerNames } from '../providers/providers.ts';
import type { Route } from './running-call.ts';
import type { AiCaller, AiModel, Gateway } from './types.ts';

/** The model lists of providers, for each key. */
export interface ModelLists {
  /**
   * Kept for an hour; one that is older is better than none when the provider does not answer.
   * @throws what the asking throws, when nothing is kept
   */
  readonly of: (key: ProviderKey) => Promise<readonly ListedModel[]>;
  /** Returns the cached list without a request; undefined when there is none. */
  readonly cached: (key: ProviderKey) => readonly ListedModel[] | undefined;
}

interface CachedList {
  readonly models: readonly ListedModel[];
  readonly at: number;
}

const cacheTtlMs = 3_600_000;
// Room for lists of some 100 models each, and of 5,000 at most.
const maxCached = 500;
const maxModelsCached = 100_000;

/** A changed key is another: it may open other models. */
const nameOf = ({ id, version }: ProviderKey): string => `${id}:${version}`;

/** @param fetchList the whole list, from the provider */
export const createModelLists = (
  fetchList: (key: ProviderKey) => Promise<readonly ListedModel[]>,
  now: () => number = Date.now,
): ModelLists => {
  const lists = new LRUCache<string, CachedList>({
    max: maxCached,
    maxSize: maxModelsCached,
    sizeCalculation: ({ models }) => models.length + 1,
  });
  const pending = new Map<string, Promise<readonly ListedModel[]>>();

  const fetchAndCache = async (key: ProviderKey, name: string): Promise<readonly ListedModel[]> => {
    try {
      const models = await fetchList(key);
      lists.set(name, { models, at: now() });
      return models;
    } catch (error) {
      const stale = lists.get(name);
      if (stale === undefined) throw error;
      return stale.models;
    } finally {
      pending.delete(name);
    }
  };

  return {
    of: (key) => {
      const name = nameOf(key);
      const present = lists.get(name);
      if (present && now() - present.at < cacheTtlMs) return Promise.resolve(present.models);
      // Callers that need a list at the same time share one request.
      const under = pending.get(name) ?? fetchAndCache(key, name);
      if (!pending.has(name)) pending.set(name, under);
      return under;
    },
    cached: (key) => lists.get(nameOf(key))?.models,
  };
};

// Lists of OpenAI's dialect do not say what a model is for: these neither chat nor embed.
const other = new RegExp(
  'whisper|tts|dall-e|gpt-image|imagine|image-|moderation|realtime|audio|transcribe|sora|veo-|imagen|aqa|guard|' +
    'davinci|babbage|computer-use|-live|orpheus',
  'i',
);

const namesEmbedding = /embed/i;

/** Returns the purpose of a model in a provider's list; null: neither chat nor embeddings. */
const typeOf = (
  { id, type }: Pick<ListedModel, 'id' | 'type'>,
  known: KnownModel | undefined,
): AiModel['type'] | null => {
  if (type !== null) return type;
  if (known) return known.type;
  if (namesEmbedding.test(id)) return 'embedding';
  return other.test(id) ? null : 'chat';
};

/** Nano-USD for a token are thousandths of a USD for a million. */
const perMillion = (price: Price): AiModel['price'] => ({ input: price.input / 1000, output: price.output / 1000 });

const enriched = (
  { provider }: ProviderKey,
  listed: ListedModel,
  known: KnownModel | undefined,
): readonly AiModel[] => {
  const type = typeOf(listed, known);
  if (type === null || (type === 'embedding' && !providerFacts[provider].supports.embeddings)) return [];
  return [
    {
      id: listed.id,
      provider,
      type,
      context_window: listed.contextWindow ?? known?.contextWindow ?? null,
      dimensions: type === 'embedding' ? (known?.dimensions ?? null) : null,
      price: known?.price ? perMillion(known.price) : null,
    },
  ];
};

/** A provider's list as the project's people see it. */
export const modelsOf = (key: ProviderKey, list: readonly ListedModel[], prices: Prices): readonly AiModel[] =>
  list.flatMap((listed) => enriched(key, listed, prices.find(key.provider, listed.id)));

/** The chat model where none was named: the first that the provider lists. */
const preferredModels: Readonly<Record<ProviderName, readonly [string, ...string[]]>> = {
  openai: ['gpt-5-mini', 'gpt-4.1-mini', 'gpt-4o-mini'],
  anthropic: ['claude-sonnet-4-5', 'claude-sonnet-4-0', 'claude-3-5-haiku-latest'],
  google: ['gemini-2.5-flash', 'gemini-2.0-flash'],
  groq: ['openai/gpt-oss-120b', 'llama-3.3-70b-versatile'],
  deepseek: ['deepseek-chat'],
  xai: ['grok-4', 'grok-3-mini'],
};

const named = (provider: ProviderName, id: string): string => `${provider}/${id}`;

/** Dated names count as the model: `claude-sonnet-4-5-20250929`. A server of the project's own lists other ones. */
const preferredAmong = (provider: ProviderName, models: readonly AiModel[]): string | undefined => {
  const ids = models.filter((model) => model.provider === provider && model.type === 'chat').map(({ id }) => id);
  for (const wanted of preferredModels[provider]) {
    const found = ids.find(
      (id) => id === wanted || (id.startsWith(`${wanted}-`) && /^-\d+$/.test(id.slice(wanted.length))),
    );
    if (found !== undefined) return found;
  }
  return ids[0];
};

/**
 * The model for those who name none, as `provider/id`: of the first configured provider, in the order of the interface.
 * @throws {ServiceError} `provider_not_configured` when the project has no key for any
 */
export const defaultChatModel = async (
  gateway: Pick<Gateway, 'models'>,
  project: AiCaller['project'],
): Promise<string> => {
  const { models, failed } = await gateway.models(project);
  for (const provider of providerNames) {
    const id = preferredAmong(provider, models);
    if (id !== undefined) return named(provider, id);
  }
  // Its list is unavailable right now; the call itself will return the reason.
  const queried = providerNames.find((provider) => failed.some((one) => one.provider === provider));
  if (queried !== undefined) return named(queried, preferredModels[queried][0]);
  throw new ServiceError('provider_not_configured', 'The project has no key for any provider of models.', {
    hint: 'Add one with POST /projects/{project_id}/ai/providers.',
  });
};

type ModelType = AiModel['type'];

interface RouterDeps {
  readonly keys: ProviderKeys;
  readonly prices: Prices;
  readonly lists: ModelLists;
}

/** Finds out where a name of a model leads. */
type Router = (project: AiCaller['project'], name: string, type: ModelType) => Promise<Route>;

const supports = (provider: ProviderName, type: ModelType): boolean =>
  type === 'chat' || providerFacts[provider].supports.embeddings;

const notSupported = (message: string): ServiceError =>
  new ServiceError('not_supported', message, { hint: 'GET …/ai/models lists the models of each type.' });

const requireType = (provider: ProviderName, known: KnownModel | undefined, type: ModelType): void => {
  const { label } = providerFacts[provider];
  if (!supports(provider, type)) throw notSupported(`${label} has no embeddings.`);
  if (known === undefined || known.type === type) return;
  throw notSupported(
    type === 'chat' ? `${known.id} makes embeddings; it does not chat.` : `${known.id} makes no embeddings.`,
  );
};

const nowhere = (name: string, hint: string): ServiceError =>
  new ServiceError('model_not_found', `No configured provider has a model "${name}".`, { hint });

const unknown = (name: string, ids: Iterable<string>): ServiceError => {
  const meant = nearest(name, ids);
  return nowhere(name, meant === null ? 'GET …/ai/models lists what there is.' : `Perhaps you mean ${meant}.`);
};

/** Each of several servers of the project's own would take the name; that does not mean that one has it. */
const unlisted = (id: string, own: readonly ProviderKey[]): ServiceError => {
  const names = own.map(({ provider }) => `${provider}/${id}`);
  return nowhere(id, `To ask a server that does not list it, name the provider, too: ${names.join(', ')}.`);
};

const ambiguous = (name: string, keys: readonly ProviderKey[]): ServiceError => {
  const names = keys.map(({ provider }) => `${provider}/${name}`);
  return new ServiceError('model_ambiguous', `Several providers have a model "${name}".`, {
    details: { candidates: names },
    hint: `Name one of them: ${names.join(', ')}.`,
  });
};

/** The provider before the first slash, when there is one; ids of models have slashes of their own. */
const splitName = (name: string): readonly [ProviderName | null, string] => {
  const slash = name.indexOf('/');
  const first = name.slice(0, Math.max(slash, 0));
  return isProviderName(first) ? [first, name.slice(slash + 1)] : [null, name];
};

const listsIt = (models: readonly { readonly id: string }[] | undefined, id: string): boolean =>
  models?.some((model) => model.id === id) ?? false;

/** One is it, several are none. */
const single = (found: readonly ProviderKey[], id: string): ProviderKey | undefined => {
  if (found.length > 1) throw ambiguous(id, found);
  return found[0];
};

/** @returns who lists it, and all that is listed */
const fetchLists = async ({ lists }: RouterDeps, keys: readonly ProviderKey[], { id, type }: RouteRequest) => {
  const answers = await Promise.all(keys.map(async (key) => ({ key, models: await lists.of(key).catch(() => []) })));
  return {
    found: answers.filter(({ models }) => listsIt(models, id)).map(({ key }) => key),
    ids: answers.flatMap(({ models }) => models.filter((m) => typeOf(m, undefined) === type).map((m) => m.id)),
  };
};

interface RouteRequest {
  readonly id: string;
  readonly type: ModelType;
}

/**
 * Providers that have a model by the tables and lists at hand; those that name it exactly come before those that know
 * its kind.
 */
const knowing = ({ prices, lists }: RouterDeps, keys: readonly ProviderKey[], id: string): readonly ProviderKey[] => {
  const exact = prices.providersOf(id);
  const named = keys.filter((key) => exact.includes(key.provider) || listsIt(lists.cached(key), id));
  return named.length > 0 ? named : keys.filter((key) => prices.find(key.provider, id) !== undefined);
};

/**
 * The key for a model that is named without its provider. Providers that know the model come first: a server of the
 * project's own (`base_url`) takes any name, but is meant only when none of the vendors has it, and when it is the only
 * one. Lists are fetched only when no provider is left, so that no call waits for them that could go out.
 */
const findKey = async (deps: RouterDeps, { byProvider }: ProjectKeys, request: RouteRequest): Promise<ProviderKey> => {
  const { id, type } = request;
  const keys = [...byProvider.values()].filter(({ provider }) => supports(provider, type));
  const known = single(knowing(deps, keys, id), id);
  if (known) return known;
  const own = keys.filter(({ target }) => !target.isVendor);
  if (own[0] && own.length === 1) return own[0];
  const { found, ids } = await fetchLists(deps, keys, request);
  const listed = single(found, id);
  if (listed) return listed;
  if (own.length > 1) throw unlisted(id, own);
  const elsewhere = deps.prices.providersOf(id).find((provider) => !byProvider.has(provider));
  throw elsewhere === undefined ? unknown(id, ids) : notConfigured(elsewhere);
};

const configured = ({ byProvider }: ProjectKeys, provider: ProviderName): ProviderKey => {
  const key = byProvider.get(provider);
  if (key === undefined) throw notConfigured(provider);
  return key;
};

/**
 * A name with its provider goes there without further ado: the provider is the one to say what it has. Prices are those
 * of the name, at a `base_url` too: most of these are proxies before the vendor.
 */
export const createRouter =
  (deps: RouterDeps): Router =>
  async (project, name, type) => {
    const [named, id] = splitName(name);
    if (id === '') throw unknown(name, []);
    const keys = await deps.keys.all(project);
    const key = named === null ? await findKey(deps, keys, { id, type }) : configured(keys, named);
    const { provider } = key;
    const known = deps.prices.find(provider, id);
    requireType(provider, known, type);
    return { provider, model: id, key, known, hardBudget: keys.hardBudget };
  };
