import { ServiceError } from '#lib/errors.ts';
import type { AiCaller, AiModel, Gateway } from '../gateway/types.ts';
import { type ProviderName, providerNames } from '../providers/providers.ts';

/** The chat model where none was named: the first that the provider lists. */
export const preferredModels: Readonly<Record<ProviderName, readonly [string, ...string[]]>> = {
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
