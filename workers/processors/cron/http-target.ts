import type { Egress, EgressResponse } from '#lib/egress.ts';
import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';
import type { JobOutcome } from '#queues/define.ts';
import { failed, succeeded } from './outcomes.ts';

export interface HttpTargetDeps {
  readonly egress: Pick<Egress, 'fetch'>;
}

export interface HttpCall {
  readonly url: string;
  /** JSON text, sent as it is. */
  readonly payload: string;
  readonly scheduleId: string;
  /** The same for every repetition of the call: the receiver can recognize one. */
  readonly runId: string;
}

// A slot is held meanwhile: as long as a webhook's receiver has.
const timeoutMs = 15_000;
const keptBytes = 65_536;

/** The part of an answer that the job keeps. Bytes that are not UTF-8 are shown as U+FFFD. */
const resultOf = ({ status, body }: EgressResponse, began: number) => ({
  status,
  duration_ms: Math.round(performance.now() - began),
  ...(body.length > 0 && { body: body.toString('utf8') }),
});

const outcomeOf = (response: EgressResponse, began: number): JobOutcome => {
  const result = resultOf(response, began);
  const { status } = response;
  if (status >= 200 && status < 300) return succeeded(result);
  return failed('http_status', `The address answered with status ${status}.`, result);
};

/** POSTs the payload. Redirects are answers like any other, and failures. */
export const runHttpTarget = async (
  { egress }: HttpTargetDeps,
  { url, payload, scheduleId, runId }: HttpCall,
  signal: AbortSignal,
): Promise<JobOutcome> => {
  const began = performance.now();
  const headers = {
    'content-type': 'application/json',
    'user-agent': 'plinth-cron/1',
    'idempotency-key': runId,
    'x-plinth-schedule-id': scheduleId,
  };
  const how = {
    for: 'platform',
    method: 'POST',
    headers,
    body: payload,
    timeoutMs,
    maxBytes: keptBytes,
    signal,
  } as const;
  try {
    return outcomeOf(await egress.fetch(url, how), began);
  } catch (error) {
    if (error instanceof EgressRefused) return failed(error.code, error.message);
    if (error instanceof EgressFailed) return failed(`http_${error.reason}`, error.message);
    throw error;
  }
};
