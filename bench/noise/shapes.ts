/** The victims, in the order of the columns. */
export const victims = ['read', 'webhook', 'invoke', 'chat', 'create', 'sign-in'] as const;
export type Victim = (typeof victims)[number];

export const victimTitles: Readonly<Record<Victim, string>> = {
  read: 'REST read',
  webhook: 'insert to webhook',
  invoke: 'sync invoke',
  chat: 'chat',
  create: 'project creation',
  'sign-in': 'sign-in',
};

export interface SlicePlan {
  readonly victim: Victim;
  readonly seconds: number;
}

/** Calls of one victim, one after another. */
export interface Slice {
  /** Milliseconds of each call that was answered as it should be. */
  readonly latencies: readonly number[];
  readonly errors: number;
  readonly firstError: string | null;
}

/** How a victim fared beside an abuse: one cell of the matrix. */
export interface Cell {
  readonly victim: Victim;
  readonly alone: readonly number[];
  readonly beside: readonly number[];
  /** Answered to the victim beside the abuse; a call without an answer in 10 s is one. */
  readonly errors: number;
  readonly firstError: string | null;
  /** The longest stall of an event loop meanwhile, in ms; infinite when a process ended. */
  readonly apiStallMs: number;
  readonly workerStallMs: number;
  /** The longest of all three event loops while the victim was alone. */
  readonly aloneStallMs: number;
}

/** The abuser's count so far. */
export interface Effect {
  readonly facts: Readonly<Record<string, number>>;
  /** Why the abuse was none, for example because its client was never heard; null: it was one. */
  readonly missing: string | null;
}
