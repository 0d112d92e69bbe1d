import { ServiceError } from '#lib/errors.ts';
import { type JsonParser, maxInlineBytes } from '#lib/json-parser.ts';
import type { ChatAnswer } from '../chat.ts';
import { type ProviderName, dialectOf } from '../providers/providers.ts';
import {
  type Dialect,
  type EmbeddingAnswer,
  type EmbeddingRequest,
  type Target,
  ProviderFault,
} from '../providers/dialect.ts';
import type { KnownModel } from '../prices/prices.ts';
import {
  type EmbeddingsReaderCall,
  type EmbeddingsThere,
  type ReadThere,
  threadReaders,
} from '../providers/thread-readers.ts';

/** Reads whole answers of providers: small ones here, large ones in a thread that checks and counts them first. */
export interface Answers {
  readonly chat: (from: AnswerRequest, bytes: Buffer) => Promise<ChatAnswer>;
  readonly embeddings: (from: AnswerRequest, bytes: Buffer, request: EmbeddingRequest) => Promise<EmbeddingAnswer>;
  readonly models: (from: AnswerRequest, bytes: Buffer) => Promise<ReturnType<Dialect['readModels']>>;
}

export interface AnswerRequest {
  readonly provider: ProviderName;
  /** The owner of the work, for the round of the threads. */
  readonly owner: string;
}

/** 4 MB with the 20 likeliest of each token have some 350,000. */
const maxChatParts = 400_000;
const maxModelParts = 200_000;
/** Beside the numbers: an object, its names and strings for each vector, and what stands around them. */
const partsPerVector = 16;
const partsAround = 1000;
const numbersPerPart = 8;
/** The most dimensions that plinth stores (contract, section 8), where nothing is known of a model. */
const maxDimensions = 16_000;
/** As OpenAI's own limit of 2,048 texts, with 4,096 numbers each. */
const maxNumbers = 8_388_608;
/** A double has up to 24 characters and a comma; in base64 a float32 takes 5.3 bytes. */
const bytesPerNumber = 26;
const bytesPerBase64 = 6;
const bytesPerVector = 1024;
const bytesAround = 65_536;
const maxEmbeddingBytes = 32_000_000;

/** How long the vectors of an answer may be. */
const dimensionsOf = ({ dimensions }: EmbeddingRequest, known: KnownModel | undefined): number =>
  dimensions ?? known?.dimensions ?? maxDimensions;

/** Bytes that an answer with embeddings can reasonably have: from its texts and their dimensions, 32 MB at most. */
export const maxBytesOf = (
  request: EmbeddingRequest,
  known: KnownModel | undefined,
  { isVendor }: Pick<Target, 'isVendor'>,
): number => {
  // Servers of projects' own are asked for plain numbers, and know what their models are called.
  const dimensions = isVendor ? dimensionsOf(request, known) : maxDimensions;
  const perNumber = isVendor && known?.provider === 'openai' ? bytesPerBase64 : bytesPerNumber;
  const bytes = bytesAround + request.input.length * (bytesPerVector + dimensions * perNumber);
  return Math.min(bytes, maxEmbeddingBytes);
};

const maxPartsOf = ({ input }: EmbeddingRequest): number => {
  const numbers = Math.min(input.length * maxDimensions, maxNumbers);
  return partsAround + input.length * partsPerVector + Math.ceil(numbers / numbersPerPart);
};

const isLarge = (bytes: Buffer): boolean => bytes.length > maxInlineBytes;

/** A malformed text is the provider's fault; busy threads are ours. */
const asFault = (error: unknown): unknown => {
  if (!(error instanceof ServiceError)) return error;
  return new ProviderFault(error.code === 'overloaded' ? 'overloaded' : 'bad_answer', error.message);
};

const here = <T>(read: () => T): T => {
  try {
    return read();
  } catch (error) {
    // JSON.parse takes any depth; what walks the value does not.
    if (error instanceof RangeError) throw new ProviderFault('bad_answer', 'The answer is nested too deep.');
    throw error;
  }
};

const reportedIn = (answer: ReadThere): unknown => {
  if (!('fault' in answer)) return answer.read;
  const { kind, message, status, retryAfterMs } = answer.fault;
  throw new ProviderFault(kind, message, { status, retryAfterMs });
};

const vectorsOf = ({ numbers, dimensions }: EmbeddingsThere): Float64Array[] =>
  Array.from({ length: dimensions === 0 ? 0 : numbers.length / dimensions }, (_, at) =>
    numbers.subarray(at * dimensions, (at + 1) * dimensions),
  );

type Options = Parameters<JsonParser['read']>[2];

export const createAnswers = (json: Pick<JsonParser, 'read'>): Answers => {
  const there = async (name: string, bytes: Buffer, options: Options): Promise<unknown> => {
    const answer = await json.read(bytes, { module: threadReaders, name }, options).catch((error: unknown) => {
      throw asFault(error);
    });
    return reportedIn(answer as ReadThere);
  };
  return {
    chat: async ({ provider, owner }, bytes) => {
      if (!isLarge(bytes)) return here(() => dialectOf(provider).readChat(bytes.toString()));
      const read = (await there('chat', bytes, { owner, args: { provider }, maxParts: maxChatParts })) as Omit<
        ChatAnswer,
        'raw'
      > & {
        readonly raw: boolean;
      };
      return { ...read, raw: read.raw ? bytes.toString() : null };
    },
    embeddings: async ({ provider, owner }, bytes, request) => {
      if (!isLarge(bytes)) return here(() => dialectOf(provider).readEmbeddings(bytes.toString(), request));
      const args: EmbeddingsReaderCall = { provider, model: request.model, inputs: request.input.length };
      const read = (await there('embeddings', bytes, {
        owner,
        args,
        maxParts: maxPartsOf(request),
      })) as EmbeddingsThere;
      return { model: read.model, promptTokens: read.promptTokens, vectors: vectorsOf(read) };
    },
    models: async ({ provider, owner }, bytes) => {
      if (!isLarge(bytes)) return here(() => dialectOf(provider).readModels(bytes.toString()));
      return (await there('models', bytes, { owner, args: { provider }, maxParts: maxModelParts })) as ReturnType<
        Dialect['readModels']
      >;
    },
  };
};
