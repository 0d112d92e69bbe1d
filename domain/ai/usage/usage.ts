import type { ProviderName } from '../providers/providers.ts';
import type { TokenUsage } from '../chat.ts';

/*
 * One row of ai_calls for each call of a model: `call-log.ts` records its intent and its end in batches,
 * `call-store.ts` has the statements, `budget.ts` what a project may spend, `roll-up.ts` adds up past days, and
 * `report.ts` answers from both.
 */

/** The purpose of a call. */
export const callKinds = ['chat', 'stream', 'embeddings', 'arena', 'vectors', 'assistant', 'generate', 'test'] as const;
export type CallKind = (typeof callKinds)[number];

export const callStatuses = ['success', 'error', 'incomplete', 'client_closed'] as const;
export type CallStatus = (typeof callStatuses)[number];

/** One call that somebody asks for; its retries are part of it. */
export interface CallIntent {
  /** A UUIDv7. */
  readonly id: string;
  readonly projectId: string;
  readonly kind: CallKind;
  readonly provider: ProviderName;
  /** The provider's own id. */
  readonly model: string;
  readonly requestId: string;
  /** Null: a member of the project asked, or a job. */
  readonly apiKeyId: string | null;
  readonly startedAt: Date;
  /**
   * The most that it may cost, as far as it is known beforehand: the amount that a hard budget must have room for.
   * Null: the model has no price.
   */
  readonly reserveNanoUsd: number | null;
}

/** One call has no more, whatever a provider says: sums of them stay whole numbers. */
export const maxTokens = 100_000_000;
/** 10,000 USD. */
export const maxNanoUsd = 1e13;

/** How a call ended. */
export interface CallEnd {
  readonly status: CallStatus;
  /** Null: there is none, since no answer started. */
  readonly usage: TokenUsage | null;
  readonly tokensSource: 'reported' | 'estimated';
  /** Null: unknown, since the model has no price. */
  readonly costNanoUsd: number | null;
  /** From the request to its end. */
  readonly latencyMs: number;
  /** To the first piece of a stream. */
  readonly ttftMs: number | null;
  readonly errorCode: string | null;
  /** In words that the project's members may read: without the provider's key. */
  readonly errorMessage: string | null;
  /** How often the provider was asked again. */
  readonly retries: number;
  /**
   * Our side aborted it once the request was sent: its cost is unknown. Under a budget the whole reservation counts.
   */
  readonly givenUp: boolean;
}

/** A call that has started. */
export interface OpenCall {
  /**
   * Resolves once the intent is recorded, and with it the budget taken: before that no byte of the answer goes out.
   * @throws {ServiceError} `dependency_unavailable` when it cannot be recorded, `budget_exceeded`
   */
  readonly recorded: Promise<void>;
  /**
   * Records the end: retried in the background until Postgres takes it. The first end counts. Every call must get one,
   * also when `recorded` rejects: after `budget_exceeded` it leaves no row unless the request was sent, after
   * `dependency_unavailable` a successful call is recorded as an error all the same, since its caller got one.
   */
  readonly end: (end: CallEnd) => void;
}

/** Records calls of this process, exactly one row for each. */
export interface CallLog {
  readonly begin: (intent: CallIntent) => OpenCall;
  /** Resolves when all that has ended is recorded. */
  readonly settled: () => Promise<void>;
  /** Says for as long as it lives that the open calls are this process's own. */
  readonly close: () => Promise<void>;
}
