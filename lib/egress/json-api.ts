import type { Egress, EgressRequest, EgressResponse } from '#lib/egress.ts';
import { EgressFailed, EgressRefused } from './failures.ts';

const userAgent = 'plinth-integrations/1';
const defaultMaxBytes = 256 * 1024;
const timeoutMs = 10_000;

/** The response of a provider; `error` in words when it could not be reached. */
export type ProviderResponse =
  | { readonly response: EgressResponse; readonly error: null }
  | { readonly response: null; readonly error: string };

interface Question {
  readonly method: 'GET' | 'POST';
  /** The base URL of the API, with or without a slash at the end. */
  readonly base: string;
  /** Begins with a slash. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

const requestOf = (question: Question): EgressRequest => ({
  for: 'platform',
  method: question.method,
  headers: { 'user-agent': userAgent, accept: 'application/json', ...question.headers },
  body: question.body ?? null,
  timeoutMs: question.timeoutMs ?? timeoutMs,
  maxBytes: defaultMaxBytes,
  signal: question.signal,
});

/** One request to a provider's API. Only what `signal` is aborted with is thrown. */
export const callProvider = async (egress: Pick<Egress, 'fetch'>, question: Question): Promise<ProviderResponse> => {
  const url = `${question.base.replace(/\/+$/, '')}${question.path}`;
  try {
    return { response: await egress.fetch(url, requestOf(question)), error: null };
  } catch (error) {
    if (!(error instanceof EgressFailed || error instanceof EgressRefused)) throw error;
    return { response: null, error: error.message };
  }
};

export const basicAuth = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

/** The object in a JSON answer; empty when there is none. */
export const objectIn = ({ body }: Pick<EgressResponse, 'body'>): Readonly<Record<string, unknown>> => {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
};

export const isSuccess = ({ status }: Pick<EgressResponse, 'status'>): boolean => status >= 200 && status < 300;
