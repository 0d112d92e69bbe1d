import type { Project } from '#domain/projects/store.ts';
import type { Disconnection } from '#lib/disconnection.ts';
import type { ChatAnswer, ChatPiece, ChatRequest, FinishReason, TokenUsage } from '../chat.ts';
import type { EmbeddingRequest, Vector } from '../providers/dialect.ts';
import type { ProviderName } from '../providers/providers.ts';
import type { CallKind } from '../usage/usage.ts';

/** For whom and for what a provider is asked. */
export interface AiCaller {
  readonly project: Pick<Project, 'id' | 'plan' | 'data_key'>;
  readonly kind: CallKind;
  readonly requestId: string;
  /** The API key that it is made with; left out: it is made without one. */
  readonly apiKeyId?: string | undefined;
  /** Somebody waits for the call itself, though its kind is a job's: it counts among the direct ones. */
  readonly direct?: true;
  /** Aborted when no caller waits for the answer any more: then the provider's connection is closed at once. */
  readonly signal: Disconnection;
}

interface CallReport {
  readonly provider: ProviderName;
  readonly latencyMs: number;
  readonly usage: TokenUsage;
  readonly tokensSource: 'reported' | 'estimated';
}

export interface ChatOutcome extends CallReport {
  readonly answer: ChatAnswer;
}

/** How a stream ended well. */
export interface StreamEnd extends CallReport {
  readonly model: string;
  readonly finish: FinishReason;
  readonly ttftMs: number;
}

/** A piece, and when it came: milliseconds from the request on. */
export interface TimedPiece extends ChatPiece {
  readonly elapsedMs: number;
}

/** A stream whose first event has come. */
export interface ChatStream {
  readonly provider: ProviderName;
  /** As it was asked for. */
  readonly model: string;
  /**
   * The pieces that came since the last step, at least one; the reader's pace is kept upstream.
   * Throws a ServiceError when the stream breaks, also when it ends without the provider's end marker.
   */
  readonly pieces: AsyncIterable<readonly TimedPiece[]>;
  /** Once `pieces` has ended. */
  readonly end: () => StreamEnd;
}

export interface EmbeddingOutcome extends CallReport {
  readonly model: string;
  readonly vectors: readonly Vector[];
  readonly dimensions: number;
}

/** A model of a configured provider. */
export interface AiModel {
  readonly id: string;
  readonly provider: ProviderName;
  readonly type: 'chat' | 'embedding';
  readonly context_window: number | null;
  /** The dimensions of an embedding model's vectors. */
  readonly dimensions: number | null;
  /** In USD for a million tokens; null: not known. */
  readonly price: { readonly input: number; readonly output: number } | null;
}

/**
 * The one way to models: keys, limits, retries, time-outs, usage and budgets are kept here for every caller. All throw
 * ServiceErrors with the contract's codes (`model_not_found`, `model_ambiguous`, `provider_not_configured`,
 * `provider_auth_failed`, `provider_rate_limited`, `provider_unavailable`, `provider_timeout`, `provider_rejected`,
 * `provider_bad_output`, `context_length_exceeded`, `not_supported`, `budget_exceeded`, `price_unknown`,
 * `too_many_calls`, `dependency_unavailable`).
 */
export interface Gateway {
  /** `model` may carry its provider: `anthropic/claude-…`. */
  readonly chat: (caller: AiCaller, request: ChatRequest) => Promise<ChatOutcome>;
  /** Resolves with the first event: what fails before is thrown here. */
  readonly stream: (caller: AiCaller, request: ChatRequest) => Promise<ChatStream>;
  readonly embed: (caller: AiCaller, request: EmbeddingRequest) => Promise<EmbeddingOutcome>;
  /** The models of all configured providers; a provider that does not answer is named in `failed`. */
  readonly models: (project: AiCaller['project']) => Promise<{
    readonly models: readonly AiModel[];
    readonly failed: readonly { readonly provider: ProviderName; readonly message: string }[];
  }>;
  /** Which provider and bare model a name means. */
  readonly resolve: (
    project: AiCaller['project'],
    model: string,
    type: 'chat' | 'embedding',
  ) => Promise<{ readonly provider: ProviderName; readonly model: string }>;
  readonly close: () => Promise<void>;
}

/** Whether a provider takes a project's key. */
export interface KeyTest {
  readonly ok: boolean;
  readonly latencyMs: number;
  /** In words, without the key; null when it is ok. */
  readonly error: string | null;
}

/** The gateway with what only the project's own people use. */
export interface ProviderGateway extends Gateway {
  /**
   * Asks a provider for its models, once; a fault of the provider is an answer.
   * @throws {ServiceError} `provider_not_configured`, `too_many_calls`, `dependency_unavailable`
   */
  readonly test: (caller: AiCaller, provider: ProviderName) => Promise<KeyTest>;
}
