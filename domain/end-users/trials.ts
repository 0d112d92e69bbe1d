import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';

/** The outcome of asking an outside service by way of trial. */
export interface Tried {
  readonly ok: boolean;
  /** Until the service had answered, or it was clear that it does not. */
  readonly latencyMs: number;
  /** In words, without secrets; null when it is ok. */
  readonly error: string | null;
}

/** The words for a service that could not be asked. @throws what is no such failure */
const faultOfEgress = (error: unknown): string => {
  if (error instanceof EgressFailed || error instanceof EgressRefused) return error.message;
  throw error;
};

/** Asks, and measures. @param ask resolves to what is wrong in words; null: nothing */
export const tryService = async (ask: () => Promise<string | null>): Promise<Tried> => {
  const began = performance.now();
  const error = await ask().catch(faultOfEgress);
  return { ok: error === null, latencyMs: Math.round(performance.now() - began), error };
};
