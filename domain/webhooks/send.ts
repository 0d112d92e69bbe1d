import type { Egress, EgressResponse } from '#lib/egress.ts';
import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';
import { retryAfter } from './attempts.ts';
import type { Message } from './message.ts';
import { hideSecrets } from './secrets.ts';
import type { Attempted } from './store.ts';

/** What a receiver made of a message. */
export type Answered = Omit<Attempted, 'deliveryId' | 'jobId' | 'requestHeaders'>;

interface SendOptions {
  readonly egress: Pick<Egress, 'fetch'>;
  /** From the call to the last byte of the answer that is read. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

const maxResponseBytes = 64 * 1024;

/** A column of text holds no NUL. */
const storable = (body: Buffer): string => body.toString().replaceAll('\0', '\uFFFD');

const faultOf = (status: number): string | null => {
  if (status >= 200 && status < 300) return null;
  if (status >= 300 && status < 400) return `The receiver answered ${status}: redirects are not followed.`;
  return `The receiver answered ${status}.`;
};

const mayRequestPause = new Set([429, 503]);

/** The later of what its headers and its body say. */
const pausedUntil = ({ status, headers, body }: EgressResponse, { pauseSeconds }: Message): Date | null => {
  if (!mayRequestPause.has(status)) return null;
  const now = Date.now();
  const byHeader = retryAfter(headers['retry-after'], now);
  const seconds = status === 429 ? (pauseSeconds?.(body.toString()) ?? 0) : 0;
  const byBody = now + seconds * 1000;
  return seconds > 0 && byBody > (byHeader?.getTime() ?? 0) ? new Date(byBody) : byHeader;
};

const answeredOf = (response: EgressResponse, message: Message, responseTimeMs: number): Answered => ({
  statusCode: response.status,
  responseTimeMs,
  responseBody: hideSecrets(storable(response.body), message.secrets, { isCut: response.truncated }),
  responseTruncated: response.truncated,
  error: faultOf(response.status),
  notBefore: pausedUntil(response, message),
  isGone: response.status === 410,
});

/**
 * Sends one message; whatever becomes of it is an answer.
 * @throws what `signal` was aborted with
 */
export const send = async (message: Message, { egress, timeoutMs, signal }: SendOptions): Promise<Answered> => {
  const { url, body, headers } = message;
  const began = performance.now();
  const took = (): number => performance.now() - began;
  try {
    const response = await egress.fetch(url, {
      for: 'platform',
      method: 'POST',
      headers,
      body,
      timeoutMs,
      maxBytes: maxResponseBytes,
      signal,
    });
    return answeredOf(response, message, took());
  } catch (error) {
    if (!(error instanceof EgressFailed || error instanceof EgressRefused)) throw error;
    return {
      statusCode: null,
      responseTimeMs: took(),
      responseBody: null,
      error: hideSecrets(error.message, message.secrets),
      notBefore: null,
      isGone: false,
    };
  }
};
