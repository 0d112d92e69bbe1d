import type { AiModel } from '../gateway/types.ts';
import type { ProviderKey } from '../keys/keys.ts';
import type { KnownModel, Price, Prices } from '../prices/prices.ts';
import { providerFacts } from '../providers/providers.ts';
import type { ListedModel } from '../providers/dialect.ts';

// Lists of OpenAI's dialect do not say what a model is for: these neither chat nor embed.
const other =
  /whisper|tts|dall-e|gpt-image|imagine|image-|moderation|realtime|audio|transcribe|sora|veo-|imagen|aqa|guard|davinci|babbage|computer-use|-live|orpheus/i;

const namesEmbedding = /embed/i;

/** Returns the purpose of a model in a provider's list; null: neither chat nor embeddings. */
export const typeOf = (
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
