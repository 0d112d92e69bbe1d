import type { ChatAnswer, ChatPiece, ChatRequest, FinishReason, TokenUsage } from '../chat.ts';

/** Where a provider is and with which key. The key never stands in a message that goes out, nor in a log line. */
export interface Target {
  /** Without a slash at the end. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** The base URL is the provider's own, not one that the project named: newer fields may be used. */
  readonly isVendor: boolean;
}

/** A request as it goes out. */
export interface Outgoing {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON text; null for GET. */
  readonly body: string | null;
}

/** A GET, or with a body a POST of it as JSON. */
export const outgoing = (url: string, headers: Readonly<Record<string, string>>, body?: object): Outgoing => ({
  method: body === undefined ? 'GET' : 'POST',
  url,
  headers: { 'content-type': 'application/json', ...headers },
  body: body === undefined ? null : JSON.stringify(body),
});

/** One event of a server-sent stream. */
export interface SentEvent {
  /** Empty when it has no name. */
  readonly event: string;
  readonly data: string;
}

/** Reads one stream; created for each. */
export interface StreamReader {
  /**
   * Takes the next event; null when it has nothing for the caller.
   * @throws {ProviderFault} for an event that reports an error, or that is not what the dialect allows
   */
  readonly take: (event: SentEvent) => ChatPiece | null;
  /** The model has said something: text, a call of a tool, or a thought that is not shown. */
  readonly began: boolean;
  /** No event that matters can follow: the rest need not be waited for. Not all dialects report it. */
  readonly ended: boolean;
  /** Read when the stream has ended in order: the provider's end marker came. Without it the stream is cut. */
  readonly complete: boolean;
  readonly finish: FinishReason | null;
  /** As far as it was reported; for a stream that was cut, the counts until then. */
  readonly usage: TokenUsage | null;
  /** As the provider names it; empty until it did. */
  readonly model: string;
}

export type EmbeddingInput = string | readonly number[];

export interface EmbeddingRequest {
  readonly model: string;
  /** 1 to 2,048 texts; in OpenAI's dialect also lists of the numbers of tokens. */
  readonly input: readonly EmbeddingInput[];
  /** The dimensions of the vectors, where the model lets one choose. */
  readonly dimensions?: number | undefined;
}

/** A typed array when it was read by another thread. */
export type Vector = readonly number[] | Float64Array;

export interface EmbeddingAnswer {
  readonly model: string;
  /** One for each input, in its order. */
  readonly vectors: readonly Vector[];
  /** Null: the provider did not say. */
  readonly promptTokens: number | null;
}

/** A model in a provider's own list. */
export interface ListedModel {
  readonly id: string;
  /** Null: the list does not say. */
  readonly type: 'chat' | 'embedding' | null;
  /** In tokens. */
  readonly contextWindow: number | null;
}

/**
 * Writes requests to one kind of provider, and reads its answers and streams. Pure; `transport.ts` sends and receives.
 */
export interface Dialect {
  /** Texts in one request for embeddings; more have to be asked for in several. */
  readonly maxInputs: number;
  readonly chat: (target: Target, request: ChatRequest, stream: boolean) => Outgoing;
  /** @throws {ProviderFault} `bad_answer` */
  readonly readChat: (body: string) => ChatAnswer;
  /** The vendor itself must send the end marker; left out: a server that may not send one. */
  readonly openStream: (target?: Pick<Target, 'isVendor'>) => StreamReader;
  readonly embeddings: (target: Target, request: EmbeddingRequest) => Outgoing;
  /** @throws {ProviderFault} `bad_answer`, also when there is not one vector of numbers for each input */
  readonly readEmbeddings: (body: string, request: EmbeddingRequest) => EmbeddingAnswer;
  /** A page of the list; `after` is what the page before gave as `next`. */
  readonly models: (target: Target, after: string | null) => Outgoing;
  /** @throws {ProviderFault} `bad_answer` */
  readonly readModels: (body: string) => { readonly models: readonly ListedModel[]; readonly next: string | null };
}

export type FaultKind =
  /** The key was refused. */
  | 'auth'
  | 'rate_limited'
  /** The request, as the provider sees it. */
  | 'bad_request'
  | 'context_length'
  | 'model_not_found'
  /** 5xx, or too busy. */
  | 'unavailable'
  /** No connection, or it broke. */
  | 'unreachable'
  | 'timeout'
  /** Something came that is not what the dialect allows, or the stream ended without its end marker. */
  | 'bad_answer'
  | 'cut'
  /** There was no room for its answer on our side. */
  | 'overloaded'
  /** The address of the provider is not open. */
  | 'refused_address';

export interface FaultExtras {
  /** The status of its answer; null when there was none. */
  readonly status?: number | null;
  readonly retryAfterMs?: number | null;
  readonly cause?: unknown;
}

/**
 * A failure at a provider. `message` is in the provider's own words, which may repeat the key (`secret.ts` removes it).
 */
export class ProviderFault extends Error {
  override readonly name = 'ProviderFault';
  readonly kind: FaultKind;
  readonly status: number | null;
  readonly retryAfterMs: number | null;

  constructor(kind: FaultKind, message: string, { status = null, retryAfterMs = null, cause }: FaultExtras = {}) {
    super(message, { cause });
    this.kind = kind;
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}
