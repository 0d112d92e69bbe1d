import { ServiceError } from '#lib/errors.ts';
import { nearest } from '#lib/nearest.ts';
import { notConfigured } from '../keys/changes.ts';
import type { ProjectKeys, ProviderKey, ProviderKeys } from '../keys/keys.ts';
import type { KnownModel, Prices } from '../prices/prices.ts';
import { type ProviderName, isProviderName, providerFacts } from '../providers/providers.ts';
import type { AiCaller, AiModel } from './types.ts';
import { type ModelLists, typeOf } from './models.ts';
import type { Route } from './running-call.ts';

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
 * A name with its provider goes there without further ado: the provider is the one to say what it has. Prices are those of
 * the name, at a `base_url` too: most of these are proxies before the vendor.
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
