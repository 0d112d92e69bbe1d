import type { Disconnection } from '#lib/disconnection.ts';
import { isDependencyFailure, ServiceError } from '#lib/errors.ts';
import { type JsonParser, maxInlineBytes } from '#lib/json-parser.ts';
import type { ChatAnswer, ChatRequest } from '../chat.ts';
import type { ProviderKey } from '../keys/keys.ts';
import type { KnownModel } from '../prices/prices.ts';
import {
  type Dialect,
  type EmbeddingAnswer,
  type EmbeddingRequest,
  type ListedModel,
  type Outgoing,
  type Target,
  type Vector,
  ProviderFault,
} from '../providers/dialect.ts';
import { readFault } from '../providers/faults.ts';
import { badAnswer, maxModels } from '../providers/json.ts';
import { type ProviderName, dialectOf } from '../providers/providers.ts';
import {
  type EmbeddingsReaderCall,
  type ThreadEmbeddings,
  type ThreadResult,
  threadReaders,
} from '../providers/thread-readers.ts';
import type { Transport, WholeAnswer } from '../providers/transport.ts';
import { inputTokens, tokensIn } from './estimate.ts';
import { sentenceOf, withRetries } from './faults.ts';
import { PieceReader } from './piece-reader.ts';
import type { RunningCall } from './running-call.ts';
import type { ChatOutcome, ChatStream, EmbeddingOutcome, KeyTest } from './types.ts';

/** Reads whole answers of providers: small ones here, large ones in a thread that checks and counts them first. */
export interface Answers {
  readonly chat: (from: AnswerRequest, bytes: Buffer) => Promise<ChatAnswer>;
  readonly embeddings: (from: AnswerRequest, bytes: Buffer, request: EmbeddingRequest) => Promise<EmbeddingAnswer>;
  readonly models: (from: AnswerRequest, bytes: Buffer) => Promise<ReturnType<Dialect['readModels']>>;
}

interface AnswerRequest {
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
const maxBytesOf = (
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

const readInline = <T>(read: () => T): T => {
  try {
    return read();
  } catch (error) {
    // JSON.parse takes any depth; what walks the value does not.
    if (error instanceof RangeError) throw new ProviderFault('bad_answer', 'The answer is nested too deep.');
    throw error;
  }
};

const vectorsOf = ({ numbers, dimensions }: ThreadEmbeddings): Float64Array[] =>
  Array.from({ length: dimensions === 0 ? 0 : numbers.length / dimensions }, (_, at) =>
    numbers.subarray(at * dimensions, (at + 1) * dimensions),
  );

/** A chat that a thread has read: the text itself need not come back. */
type ThreadChat = Omit<ChatAnswer, 'raw'> & { readonly raw: boolean };

export const createAnswers = (json: Pick<JsonParser, 'read'>): Answers => {
  const readInThread = async <T>(
    name: string,
    bytes: Buffer,
    options: Parameters<JsonParser['read']>[2],
  ): Promise<T> => {
    const answer = (await json.read(bytes, { module: threadReaders, name }, options).catch((error: unknown) => {
      throw asFault(error);
    })) as ThreadResult;
    if (!('fault' in answer)) return answer.read as T;
    const { kind, message, status, retryAfterMs } = answer.fault;
    throw new ProviderFault(kind, message, { status, retryAfterMs });
  };
  return {
    chat: async ({ provider, owner }, bytes) => {
      if (!isLarge(bytes)) return readInline(() => dialectOf(provider).readChat(bytes.toString()));
      const read = await readInThread<ThreadChat>('chat', bytes, { owner, args: { provider }, maxParts: maxChatParts });
      return { ...read, raw: read.raw ? bytes.toString() : null };
    },
    embeddings: async ({ provider, owner }, bytes, request) => {
      if (!isLarge(bytes)) return readInline(() => dialectOf(provider).readEmbeddings(bytes.toString(), request));
      const args: EmbeddingsReaderCall = { provider, model: request.model, inputs: request.input.length };
      const read = await readInThread<ThreadEmbeddings>('embeddings', bytes, {
        owner,
        args,
        maxParts: maxPartsOf(request),
      });
      return { model: read.model, promptTokens: read.promptTokens, vectors: vectorsOf(read) };
    },
    models: async ({ provider, owner }, bytes) => {
      if (!isLarge(bytes)) return readInline(() => dialectOf(provider).readModels(bytes.toString()));
      return readInThread('models', bytes, { owner, args: { provider }, maxParts: maxModelParts });
    },
  };
};

const unavailable: ReadonlySet<string> = new Set(['dependency_unavailable', 'overloaded']);

const faultOf = ({ status, headers, bytes }: WholeAnswer): ProviderFault =>
  readFault(status, bytes.toString(), headers['retry-after']);

/** The body of an answer that is good. */
const bodyOf = (answer: WholeAnswer): Buffer => {
  if (answer.status < 200 || answer.status > 299) throw faultOf(answer);
  return answer.bytes;
};

/** The transport of answers and the threads that read them. */
export interface ProviderClient {
  readonly transport: Transport;
  readonly answers: Answers;
}

interface Question<T> {
  readonly outgoing: Outgoing;
  readonly maxBytes?: number;
  readonly read: (bytes: Buffer) => Promise<T>;
}

/** Until when a call may be repeated, and where that is counted. */
const retriesOf = (call: RunningCall) => [call.abort, () => void (call.retries += 1)] as const;

const answerTo = <T>(
  { transport }: ProviderClient,
  call: RunningCall,
  { outgoing, read, ...bounds }: Question<T>,
): Promise<T> => {
  const callOptions = { signal: call.abort, reserved: call.reserved, ...bounds };
  return withRetries(
    async () => {
      // Nothing of the attempt before is kept.
      call.reserved.shrink(call.reserved.bytes);
      return read(bodyOf(await transport.send(outgoing, callOptions)));
    },
    ...retriesOf(call),
  );
};

const requestFor = (call: RunningCall): AnswerRequest => ({ provider: call.route.provider, owner: call.projectId });

/** A whole answer to a chat. */
export const askChat = async (
  client: ProviderClient,
  call: RunningCall,
  incoming: ChatRequest,
): Promise<ChatOutcome> => {
  const { provider, model, key } = call.route;
  const outgoing = dialectOf(provider).chat(key.target, { ...incoming, model }, false);
  const read = (bytes: Buffer) => client.answers.chat(requestFor(call), bytes);
  const answer = await answerTo(client, call, { outgoing, read });
  await call.recorded;
  let length = answer.content.length;
  for (const { function: called } of answer.toolCalls) length += called.name.length + called.arguments.length;
  const report = call.succeed({ reported: answer.usage, completionTokens: tokensIn(length), ttftMs: null });
  return { provider, answer, ...report };
};

const openOnce = async (transport: Transport, call: RunningCall, outgoing: Outgoing): Promise<PieceReader> => {
  const dialect = dialectOf(call.route.provider);
  call.reserved.shrink(call.reserved.bytes);
  const opened = await transport.openStream(outgoing, { signal: call.abort, reserved: call.reserved });
  if (!opened.ok) throw faultOf(opened);
  const reader = new PieceReader(call, opened.events, dialect.openStream(call.route.key.target));
  try {
    await reader.begin();
    return reader;
  } catch (error) {
    void opened.events.return();
    throw error;
  }
};

/** A stream, once its first event has come. */
export const openChat = async (
  { transport }: ProviderClient,
  call: RunningCall,
  incoming: ChatRequest,
): Promise<ChatStream> => {
  const { provider, model, key } = call.route;
  const outgoing = dialectOf(provider).chat(key.target, { ...incoming, model }, true);
  const pieces = await withRetries(() => openOnce(transport, call, outgoing), ...retriesOf(call));
  await call.recorded;
  return { provider, model, pieces, end: () => pieces.end() };
};

/**
 * In as many requests as the provider needs; to the caller it is one. The usage of the answers so far counts whatever
 * becomes of the rest.
 */
const embedAll = async (
  client: ProviderClient,
  call: RunningCall,
  incoming: EmbeddingRequest,
): Promise<readonly Vector[]> => {
  const { provider, model, key, known } = call.route;
  const dialect = dialectOf(provider);
  const vectors: Vector[] = [];
  let promptTokens = 0;
  let isReported = true;
  for (let from = 0; from < incoming.input.length; from += dialect.maxInputs) {
    const request = { ...incoming, model, input: incoming.input.slice(from, from + dialect.maxInputs) };
    const read = (bytes: Buffer) => client.answers.embeddings(requestFor(call), bytes, request);
    const outgoing = dialect.embeddings(key.target, request);
    const maxBytes = maxBytesOf(request, known, key.target);
    const answer = await answerTo(client, call, { outgoing, maxBytes, read });
    vectors.push(...answer.vectors);
    promptTokens += answer.promptTokens ?? inputTokens(request.input);
    isReported &&= answer.promptTokens !== null;
    const reported = isReported ? { prompt_tokens: promptTokens, completion_tokens: 0 } : null;
    const used = { reported, promptTokens, completionTokens: 0, ttftMs: null };
    call.used = () => used;
  }
  return vectors;
};

/** Vectors for texts. */
export const askEmbeddings = async (
  client: ProviderClient,
  call: RunningCall,
  incoming: EmbeddingRequest,
): Promise<EmbeddingOutcome> => {
  const vectors = await embedAll(client, call, incoming);
  await call.recorded;
  const { provider, model } = call.route;
  const report = call.succeed(call.used());
  return { provider, model, vectors, dimensions: vectors[0]?.length ?? 0, ...report };
};

// Google returns 50 models on a page by default.
const maxPages = 20;
/** The bound of one page; OpenRouter's 500 models with all their fields have some 700 KB. */
const maxListBytes = 1_000_000;

/** Several wait for one list: none of them ends it by leaving. */
const neverDisconnects: Disconnection = {
  aborted: false,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
};

/** A provider's whole list. @throws {ProviderFault} */
export const askModels = async (
  { transport, answers }: ProviderClient,
  { id, provider, target }: ProviderKey,
): Promise<readonly ListedModel[]> => {
  const dialect = dialectOf(provider);
  const models: ListedModel[] = [];
  let after: string | null = null;
  for (let page = 0; page < maxPages; page += 1) {
    const answer = await transport.send(dialect.models(target, after), {
      signal: neverDisconnects,
      maxBytes: maxListBytes,
    });
    const read = await answers.models({ provider, owner: id }, bodyOf(answer));
    models.push(...read.models);
    if (models.length > maxModels) throw badAnswer(`There are more than ${maxModels} models.`);
    after = read.next;
    if (after === null) break;
  }
  return models;
};

type Run = (work: (call: RunningCall) => Promise<void>) => Promise<void>;

/** Asks for one page of models: what needs the key, changes nothing and costs nothing. */
export const testKey = async ({ transport, answers }: ProviderClient, run: Run): Promise<KeyTest> => {
  const began = performance.now();
  const report = (error: string | null): KeyTest => ({
    ok: error === null,
    latencyMs: Math.round(performance.now() - began),
    error,
  });
  let fault: string | null = null;
  const work = async (call: RunningCall): Promise<void> => {
    const { provider, key } = call.route;
    try {
      const callOptions = { signal: call.abort, reserved: call.reserved, maxBytes: maxListBytes };
      const answer = await transport.send(dialectOf(provider).models(key.target, null), callOptions);
      await answers.models(requestFor(call), bodyOf(answer));
    } catch (error) {
      if (error instanceof ProviderFault) fault = sentenceOf(key, error);
      throw error;
    }
    await call.recorded;
    const nothing = { prompt_tokens: 0, completion_tokens: 0 };
    call.succeed({ reported: nothing, completionTokens: 0, ttftMs: null });
  };
  try {
    await run(work);
    return report(null);
  } catch (error) {
    // Not recorded: then it was not tested either.
    const unrecorded = isDependencyFailure(error) || (error instanceof ServiceError && unavailable.has(error.code));
    if (fault === null || unrecorded) throw error;
    return report(fault);
  }
};
