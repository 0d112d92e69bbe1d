import { ServiceError, toServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { TokenUsage } from '../chat.ts';
import { costOf, spentBy, stepOf } from './estimate.ts';
import { explainFault } from './faults.ts';
import type { AiCaller } from './types.ts';
import { Halt } from './halt.ts';
import type { InFlight } from './in-flight.ts';
import type { ProviderKey } from '../keys/keys.ts';
import { noteCall } from './metrics.ts';
import type { KnownModel } from '../prices/prices.ts';
import type { ProviderName } from '../providers/catalog.ts';
import type { CallKind, CallLog, CallStatus, OpenCall } from '../usage/calls.ts';

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

export interface RunningDeps {
  readonly calls: CallLog;
  readonly inFlight: InFlight;
}

export interface Spending {
  /** Of the prompt, estimated. */
  readonly promptTokens: number;
  readonly reserveNanoUsd: number | null;
}

/** What is known of a call's use when it ends. */
export interface Used {
  /** As the provider told it; null: it did not. */
  readonly reported: TokenUsage | null;
  /** Of the answer, as far as it came. */
  readonly completionTokens: number;
  readonly ttftMs: number | null;
}

/** What was used, by whom it is known. */
export interface Accounted {
  readonly usage: TokenUsage;
  readonly tokensSource: 'reported' | 'estimated';
}

// Jobs have the gate of their queue.
const queued: ReadonlySet<CallKind> = new Set(['arena', 'vectors']);

const nothingUsed: Used = { reported: null, completionTokens: 0, ttftMs: null };

const ended = (): void => undefined;

const left = (): ServiceError =>
  new ServiceError('request_timeout', 'Whoever asked has gone before the answer was there.');

const closing = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'This process is being stopped. Try again shortly.', {
    headers: { 'Retry-After': '1' },
  });

/** One call that somebody asked for, from its intent to its end, which is told once. */
export class RunningCall {
  readonly halt: Halt;
  readonly route: Route;
  readonly #caller: AiCaller;
  readonly #open: OpenCall;
  readonly #spending: Spending;
  readonly #release: () => void;
  readonly #over: (call: RunningCall) => void;
  readonly #began = performance.now();
  #reserved: number;
  #isOver = false;
  /** What has come of the answer, for a call that ends without warning. */
  used: () => Used = () => nothingUsed;
  /** The provider was asked: if it is given up now, the prompt is used all the same. */
  asked = false;

  /** @throws {ServiceError} `too_many_calls` */
  constructor(
    { calls, inFlight }: RunningDeps,
    { caller, route, spending }: { readonly caller: AiCaller; readonly route: Route; readonly spending: Spending },
    over: (call: RunningCall) => void,
  ) {
    this.#release = queued.has(caller.kind) && !caller.direct ? ended : inFlight.take(caller.project);
    this.#caller = caller;
    this.route = route;
    this.#spending = spending;
    this.#reserved = spending.reserveNanoUsd ?? 0;
    this.#over = over;
    this.halt = new Halt(caller.signal);
    this.#open = calls.begin({
      id: newId(),
      projectId: caller.project.id,
      kind: caller.kind,
      provider: route.provider,
      model: route.model,
      requestId: caller.requestId,
      startedAt: new Date(),
      reserveNanoUsd: spending.reserveNanoUsd,
    });
    // Not recorded, or not granted: the provider need not go on.
    this.#open.recorded.catch((error: unknown) => this.halt.abort('refused', error));
    this.halt.addEventListener('abort', this.#halted);
  }

  /** From its beginning, in ms. */
  elapsed(): number {
    return performance.now() - this.#began;
  }

  /** Before the provider is asked: a hard budget has to grant it first. For others it is recorded meanwhile. */
  async admitted(): Promise<void> {
    if (this.route.hardBudget) await this.#open.recorded;
    if (this.halt.aborted) throw left();
    this.asked = true;
  }

  /** Before anything of the answer goes out. */
  get recorded(): Promise<void> {
    return this.#open.recorded;
  }

  account({ reported, completionTokens }: Used): Accounted {
    if (reported) return { usage: reported, tokensSource: 'reported' };
    const usage = { prompt_tokens: this.#spending.promptTokens, completion_tokens: completionTokens };
    return { usage, tokensSource: 'estimated' };
  }

  /** Of a stream that goes on: whether a hard budget still has room for it. */
  async affords(completionTokens: number): Promise<boolean> {
    const price = this.route.known?.price ?? null;
    if (!this.route.hardBudget || price === null) return true;
    const usage = { prompt_tokens: this.#spending.promptTokens, completion_tokens: completionTokens };
    while (spentBy(price, usage) > this.#reserved) {
      const more = stepOf(price);
      if (!(await this.#open.reserveMore(more))) return false;
      this.#reserved += more;
    }
    return true;
  }

  succeed(used: Used): Accounted & { readonly latencyMs: number } {
    const accounted = this.account(used);
    const latencyMs = this.elapsed();
    this.#end('success', used, null);
    return { ...accounted, latencyMs };
  }

  /** Ends it with what went wrong, and gives that to throw. */
  fail(error: unknown): unknown {
    const told = this.#explained(error);
    const status = this.halt.reason === 'left' ? 'client_closed' : 'error';
    this.#end(status, this.used(), toServiceError(told).code);
    return told;
  }

  readonly #halted = (): void => {
    if (this.halt.reason === 'left') this.#end('client_closed', this.used(), null);
    if (this.halt.reason === 'closing') this.#end('incomplete', this.used(), null);
  };

  #explained(error: unknown): unknown {
    if (this.halt.reason === 'refused') return this.halt.error;
    if (this.halt.reason === 'left') return left();
    if (this.halt.reason === 'closing') return closing();
    return explainFault(this.route.provider, error);
  }

  /** What is used up when a call does not end well: nothing before an answer began, unless it was given up by our side. */
  #usedAfter(status: CallStatus, used: Used): Accounted | null {
    if (used.reported || used.completionTokens > 0 || status === 'success') return this.account(used);
    return status !== 'error' && this.asked ? this.account(used) : null;
  }

  #end(status: CallStatus, used: Used, errorCode: string | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.halt.settle();
    this.#release();
    this.#over(this);
    const accounted = this.#usedAfter(status, used);
    const price = this.route.known?.price ?? null;
    const times = { latencyMs: Math.round(this.elapsed()), ttftMs: used.ttftMs && Math.round(used.ttftMs) };
    this.#open.end({
      status,
      usage: accounted?.usage ?? null,
      tokensSource: accounted?.tokensSource ?? 'reported',
      costNanoUsd: costOf(price, accounted?.usage ?? { prompt_tokens: 0, completion_tokens: 0 }),
      errorCode: status === 'error' ? errorCode : null,
      ...times,
    });
    noteCall({ provider: this.route.provider, kind: this.#caller.kind }, { status, ...times });
  }
}
