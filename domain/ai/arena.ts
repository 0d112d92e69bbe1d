import type { ArenaResult } from '#queues/ai-arena.ts';
import { type ErrorCode, ServiceError, isErrorCode, toServiceError } from '#lib/errors.ts';
import type { ChatRequest } from './chat.ts';
import type { AiCaller, Gateway, StreamEnd } from './gateway/types.ts';
import { isProviderName } from './providers/providers.ts';

/** The request that all models of an arena get. */
export type ArenaChat = Omit<ChatRequest, 'model'>;

/** An arena's place in the usage records and its one way to models. */
export interface ArenaCaller {
  readonly gateway: Pick<Gateway, 'chat' | 'stream' | 'resolve'>;
  readonly caller: AiCaller;
  /** Receives faults of our own: callers see no more of them than that. */
  readonly noteFault: (error: unknown) => void;
}

/** In UTF-8: four of them fit into the result of a job. */
const maxContentLength = 250_000;

/**
 * Returns the provider that the name of a failed model points at: the part before the slash, where nothing more is
 * known.
 */
const providerOf = async ({ gateway, caller }: ArenaCaller, model: string): Promise<string | null> => {
  const [before = ''] = model.split('/', 1);
  const named = model.includes('/') && isProviderName(before) ? before : null;
  return gateway.resolve(caller.project, model, 'chat').then(
    ({ provider }) => provider,
    () => named,
  );
};

const since = (began: number): number => Math.round(performance.now() - began);

const waitIn = ({ 'Retry-After': seconds }: ServiceError['headers']): { readonly retry_after?: number } =>
  seconds === undefined ? {} : { retry_after: Number(seconds) };

/** The entry of a model that failed. */
export const failedEntry = async (
  arenaCaller: ArenaCaller,
  { model, began }: { readonly model: string; readonly began: number },
  error: unknown,
): Promise<ArenaResult> => {
  const latency_ms = since(began);
  const { code, message, headers } = toServiceError(error);
  if (code === 'internal') arenaCaller.noteFault(error);
  const provider = await providerOf(arenaCaller, model);
  return { model, provider, content: null, latency_ms, tokens: null, error: { code, message, ...waitIn(headers) } };
};

/** Token counts in the arena's form. */
export const arenaTokens = ({ usage }: Pick<StreamEnd, 'usage'>): NonNullable<ArenaResult['tokens']> => ({
  prompt: usage.prompt_tokens,
  completion: usage.completion_tokens,
});

const callModel = async (arenaCaller: ArenaCaller, model: string, chat: ArenaChat): Promise<ArenaResult> => {
  const began = performance.now();
  try {
    const { answer, provider, latencyMs, usage } = await arenaCaller.gateway.chat(arenaCaller.caller, {
      ...chat,
      model,
    });
    const common = { model, provider, latency_ms: Math.round(latencyMs), tokens: arenaTokens({ usage }) };
    if (Buffer.byteLength(answer.content) <= maxContentLength)
      return { ...common, content: answer.content, error: null };
    const message = 'The answer is too long for the result of a job. Ask for events, or set max_tokens.';
    return { ...common, content: null, error: { code: 'result_too_large', message } };
  } catch (error) {
    return failedEntry(arenaCaller, { model, began }, error);
  }
};

/**
 * Calls all models with the same request, side by side; one that fails is an entry with its error.
 * @param onAnswer receives each entry as it comes
 * @returns the entries in the order in which the models were named; one may stand there twice
 */
export const runArena = (
  arenaCaller: ArenaCaller,
  { models, chat }: { readonly models: readonly string[]; readonly chat: ArenaChat },
  onAnswer: (entry: ArenaResult) => void,
): Promise<ArenaResult[]> =>
  Promise.all(
    models.map(async (model) => {
      const entry = await callModel(arenaCaller, model, chat);
      onAnswer(entry);
      return entry;
    }),
  );

/** The reason why no provider was called: none has failed then. */
const ownCodes: ReadonlySet<string> = new Set<ErrorCode>([
  'budget_exceeded',
  'price_unknown',
  'too_many_calls',
  'dependency_unavailable',
]);

/** The one code of all, where they share it and it is ours. */
const sharedCode = (entries: readonly ArenaResult[]): ErrorCode | null => {
  const codes = new Set(entries.map(({ error }) => error?.code ?? ''));
  const [code = ''] = codes;
  return codes.size === 1 && ownCodes.has(code) && isErrorCode(code) ? code : null;
};

/**
 * Returns the error of an arena in which no model answered: the cause that kept us from calling each of them, else that
 * none did.
 * @returns null when one did
 */
export const arenaFailure = (entries: readonly ArenaResult[]): ServiceError | null => {
  if (entries.some(({ error }) => error === null)) return null;
  const code = sharedCode(entries);
  const wait = Math.max(...entries.map(({ error }) => error?.retry_after ?? 0));
  const messages = new Set(entries.map(({ error }) => error?.message ?? ''));
  const [message = ''] = messages;
  return new ServiceError(
    code ?? 'provider_unavailable',
    code !== null && messages.size === 1 ? message : 'None of the models answered.',
    { details: entries, ...(code !== null && wait > 0 && { headers: { 'Retry-After': String(wait) } }) },
  );
};
