import { Counter, Histogram } from 'prom-client';
import type { ByteBudget, ReservedBytes } from '#lib/byte-budget.ts';
import type { Disconnection } from '#lib/disconnection.ts';
import { ServiceError, toServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { registry } from '#lib/metrics.ts';
import type { CallEnd, CallIntent, CallKind, CallLog, CallStatus, OpenCall } from '../usage/usage.ts';
import type { TokenUsage } from '../chat.ts';
import type { ProviderKey } from '../keys/keys.ts';
import type { KnownModel } from '../prices/prices.ts';
import type { ProviderName } from '../providers/providers.ts';
import { costOf, plausible, spentAtLeast } from './estimate.ts';
import { explainFault, isAnswered } from './faults.ts';
import type { AiCaller } from './types.ts';
import type { InFlight } from './in-flight.ts';

/** Why a call is given up before its end. */
type CallAbortReason = 'left' | 'refused' | 'closing';

/**
 * Aborts one call at its provider: when its caller leaves, and when it turns out that the call may not be made. An
 * AbortSignal of both would cost more than the rest of it.
 */
export class CallAbort implements Disconnection {
  readonly #listeners = new Set<() => void>();
  readonly #caller: Disconnection;
  reason: CallAbortReason | null = null;
  /** The error of a refusal. */
  error: unknown = null;

  constructor(caller: Disconnection) {
    this.#caller = caller;
    if (caller.aborted) this.reason = 'left';
    else caller.addEventListener('abort', this.#left);
  }

  readonly #left = (): void => this.abort('left');

  get aborted(): boolean {
    return this.reason !== null;
  }

  /** The first reason counts. */
  abort(reason: CallAbortReason, error: unknown = null): void {
    if (this.reason !== null) return;
    this.reason = reason;
    this.error = error;
    for (const listener of this.#listeners) listener();
  }

  /** The call is over: its listeners are removed. */
  settle(): void {
    this.#caller.removeEventListener('abort', this.#left);
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.delete(listener);
  }
}

const endedCalls = new Counter({
  name: 'plinth_ai_calls_total',
  help: 'Calls of models that have ended.',
  labelNames: ['provider', 'kind', 'status'] as const,
  registers: [registry],
});

const buckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600];

const callSeconds = new Histogram({
  name: 'plinth_ai_call_seconds',
  help: 'How long endedCalls of models took, from the request to the end of the answer.',
  labelNames: ['provider'] as const,
  buckets,
  registers: [registry],
});

const firstSeconds = new Histogram({
  name: 'plinth_ai_first_token_seconds',
  help: 'How long streams of models took to their first piece.',
  labelNames: ['provider'] as const,
  buckets,
  registers: [registry],
});

interface Measured {
  readonly status: CallStatus;
  readonly latencyMs: number;
  readonly ttftMs: number | null;
}

const noteCall = ({ provider, kind }: Pick<CallIntent, 'provider' | 'kind'>, ended: Measured): void => {
  endedCalls.inc({ provider, kind, status: ended.status });
  callSeconds.observe({ provider }, ended.latencyMs / 1000);
  if (ended.ttftMs !== null) firstSeconds.observe({ provider }, ended.ttftMs / 1000);
};

/** Where a call goes. */
export interface Route {
  readonly provider: ProviderName;
  /** The provider's own id. */
  readonly model: string;
  readonly key: ProviderKey;
  /** Undefined: nothing is known of the model. */
  readonly known: KnownModel | undefined;
  /** The project has a budget that calls are refused by. */
  readonly hardBudget: boolean;
}

interface RunningDeps {
  readonly calls: CallLog;
  readonly inFlight: InFlight;
  /** The budget of answers in memory, by project. */
  readonly answerBytes: Pick<ByteBudget, 'reserve'>;
}

export interface Spending {
  /** The estimated tokens of the prompt. */
  readonly promptTokens: number;
  readonly reserveNanoUsd: number | null;
  /** The requested service tier, where a provider does not report the one that it used. */
  readonly tier?: string | undefined;
}

/** The usage of a call that is known when it ends. */
export interface Used {
  /** As reported by the provider; null: it was not. */
  readonly reported: TokenUsage | null;
  /** Estimated, of the parts that were answered; left out: a prompt is used as a whole. */
  readonly promptTokens?: number;
  /** The estimated tokens of the answer, as far as it came. */
  readonly completionTokens: number;
  readonly ttftMs: number | null;
}

interface Ended extends Used {
  /** By our side, once the provider was asked. */
  readonly givenUp: boolean;
}

/** The usage, and whether the provider reported it. */
interface Accounted {
  readonly usage: TokenUsage;
  readonly tokensSource: 'reported' | 'estimated';
}

// Jobs have the gate of their queue.
const queued: ReadonlySet<CallKind> = new Set(['arena', 'vectors']);

const nothingUsed: Used = { reported: null, completionTokens: 0, ttftMs: null };

const noRelease = (): void => undefined;

const left = (): ServiceError =>
  new ServiceError('request_timeout', 'The caller disconnected before the answer was complete.');

const closing = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'This process is being stopped. Try again shortly.', {
    headers: { 'Retry-After': '1' },
  });

const faultOf = (error: ServiceError | null): Pick<CallEnd, 'errorCode' | 'errorMessage'> => ({
  errorCode: error?.code ?? null,
  errorMessage: error?.message ?? null,
});

/** One call from its intent to its end, which is recorded once. */
export class RunningCall {
  readonly abort: CallAbort;
  readonly route: Route;
  /** The bytes of its answer that are in memory. */
  readonly reserved: ReservedBytes;
  readonly #caller: AiCaller;
  readonly #open: OpenCall;
  readonly #spending: Spending;
  readonly #release: () => void;
  readonly #over: (call: RunningCall) => void;
  readonly #began = performance.now();
  #isOver = false;
  /** The part of the answer that has come, for a call that ends without warning. */
  used: () => Used = () => nothingUsed;
  /** The provider was asked: if it is given up now, the prompt is used all the same. */
  isSent = false;
  /** How often its provider was asked again. */
  retries = 0;

  /** @throws {ServiceError} `too_many_calls` */
  constructor(
    { calls, inFlight, answerBytes }: RunningDeps,
    { caller, route, spending }: { readonly caller: AiCaller; readonly route: Route; readonly spending: Spending },
    over: (call: RunningCall) => void,
  ) {
    this.#release = queued.has(caller.kind) && !caller.direct ? noRelease : inFlight.take(caller.project);
    this.reserved = answerBytes.reserve(caller.project.id);
    this.#caller = caller;
    this.route = route;
    this.#spending = spending;
    this.#over = over;
    this.abort = new CallAbort(caller.signal);
    this.#open = calls.begin({
      id: newId(),
      projectId: caller.project.id,
      kind: caller.kind,
      provider: route.provider,
      model: route.model,
      requestId: caller.requestId,
      apiKeyId: caller.apiKeyId ?? null,
      startedAt: new Date(),
      reserveNanoUsd: spending.reserveNanoUsd,
    });
    // Not recorded, or not granted: the provider need not go on.
    this.#open.recorded.catch((error: unknown) => this.abort.abort('refused', error));
    this.abort.addEventListener('abort', this.#onAbort);
  }

  /** The caller. */
  get projectId(): string {
    return this.#caller.project.id;
  }

  /** From its beginning, in ms. */
  elapsed(): number {
    return performance.now() - this.#began;
  }

  /** Before the provider is asked: a hard budget has to grant it first. For others it is recorded meanwhile. */
  async admitted(): Promise<void> {
    if (this.route.hardBudget) await this.#open.recorded;
    if (this.abort.aborted) throw left();
    this.isSent = true;
  }

  /** Before anything of the answer goes out. */
  get recorded(): Promise<void> {
    return this.#open.recorded;
  }

  /**
   * Awaited before the error is returned: an error, too, goes out once the call is recorded. A caller that has left
   * gets none.
   * @throws {ServiceError} what kept it from being recorded
   */
  async answerable(): Promise<void> {
    if (this.abort.reason !== 'left') await this.#open.recorded;
  }

  account({ reported, promptTokens, completionTokens }: Used): Accounted {
    const { tier } = this.#spending;
    const isSent = tier === undefined ? {} : { service_tier: tier };
    if (reported) return { usage: plausible({ ...isSent, ...reported }), tokensSource: 'reported' };
    const prompt = promptTokens ?? this.#spending.promptTokens;
    const usage = { prompt_tokens: prompt, completion_tokens: completionTokens, ...isSent };
    return { usage: plausible(usage), tokensSource: 'estimated' };
  }

  /** Whether a stream that goes on is still within what a hard budget granted it. */
  isWithin(reported: TokenUsage | null, characters: number): boolean {
    const { known, hardBudget } = this.route;
    if (!hardBudget || known === undefined) return true;
    return spentAtLeast(known, reported, characters) <= (this.#spending.reserveNanoUsd ?? 0);
  }

  succeed(used: Used): Accounted & { readonly latencyMs: number } {
    const accounted = this.account(used);
    const latencyMs = this.elapsed();
    this.#end('success', { ...used, givenUp: false }, null);
    return { ...accounted, latencyMs };
  }

  /** Ends it with what went wrong, and gives that to throw. */
  fail(error: unknown): unknown {
    const explained = this.#explained(error);
    const status = this.abort.reason === 'left' ? 'client_closed' : 'error';
    this.#giveUp(status, toServiceError(explained), this.abort.aborted || !isAnswered(error));
    return explained;
  }

  readonly #onAbort = (): void => {
    if (this.abort.reason === 'left') this.#giveUp('client_closed', null, true);
    if (this.abort.reason === 'closing') this.#giveUp('incomplete', null, true);
  };

  /** @param byUs the provider may go on, and count what it does */
  #giveUp(status: CallStatus, error: ServiceError | null, byUs: boolean): void {
    const givenUp = byUs && this.isSent;
    this.#end(status, { ...this.used(), givenUp }, error);
  }

  #explained(error: unknown): unknown {
    if (this.abort.reason === 'refused') return this.abort.error;
    if (this.abort.reason === 'left') return left();
    if (this.abort.reason === 'closing') return closing();
    return explainFault(this.route.key, error);
  }

  /** When a call does not end well: nothing before an answer began, unless it was given up. */
  #usedAfter(status: CallStatus, { givenUp, ...used }: Ended): Accounted | null {
    const accounted = this.account(used);
    if (status === 'success') return accounted;
    const isUsed = givenUp || used.completionTokens > 0 || used.promptTokens !== undefined;
    if (!used.reported) return isUsed ? accounted : null;
    // The usage that was reported on the way may be less than what came.
    if (used.completionTokens <= accounted.usage.completion_tokens) return accounted;
    const usage = { ...accounted.usage, completion_tokens: used.completionTokens };
    return { usage: plausible(usage), tokensSource: 'estimated' };
  }

  #end(status: CallStatus, used: Ended, error: ServiceError | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.abort.settle();
    this.#release();
    this.reserved.release();
    this.#over(this);
    const accounted = this.#usedAfter(status, used);
    const times = { latencyMs: Math.round(this.elapsed()), ttftMs: used.ttftMs && Math.round(used.ttftMs) };
    this.#open.end({
      status,
      usage: accounted?.usage ?? null,
      tokensSource: accounted?.tokensSource ?? 'reported',
      costNanoUsd: costOf(this.route.known, accounted?.usage ?? { prompt_tokens: 0, completion_tokens: 0 }),
      ...faultOf(status === 'error' ? error : null),
      retries: this.retries,
      givenUp: used.givenUp,
      ...times,
    });
    noteCall({ provider: this.route.provider, kind: this.#caller.kind }, { status, ...times });
  }
}
