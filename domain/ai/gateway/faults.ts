import type { Disconnection } from '#lib/disconnection.ts';
import { type ErrorCode, type ErrorExtras, ServiceError } from '#lib/errors.ts';
import type { ProviderKey } from '../keys/keys.ts';
import { type FaultKind, ProviderFault } from '../providers/dialect.ts';
import { providerFacts } from '../providers/providers.ts';
import { isConnectTimeout } from '../providers/transport.ts';

interface Meaning {
  readonly code: ErrorCode;
  /** The failure in words, after the provider's name. */
  readonly what: string;
  readonly hint?: string;
}

/** The caller's error code for each fault of a provider (contract, section 8). */
const meanings: Readonly<Record<FaultKind, Meaning>> = {
  auth: {
    code: 'provider_auth_failed',
    what: 'refused the key of this project',
    hint: 'POST …/ai/providers changes the key.',
  },
  rate_limited: { code: 'provider_rate_limited', what: 'takes no more requests for this key just now' },
  bad_request: { code: 'provider_rejected', what: 'did not take the request' },
  context_length: { code: 'context_length_exceeded', what: 'takes no request of that length for this model' },
  model_not_found: { code: 'model_not_found', what: 'has no such model', hint: 'GET …/ai/models lists what there is.' },
  unavailable: { code: 'provider_unavailable', what: 'cannot serve just now' },
  unreachable: { code: 'provider_unavailable', what: 'could not be reached' },
  timeout: { code: 'provider_timeout', what: 'did not answer in time' },
  bad_answer: { code: 'provider_bad_output', what: 'answered something that is not understood' },
  cut: { code: 'provider_unavailable', what: 'broke off its answer' },
  overloaded: {
    code: 'overloaded',
    what: 'answered more than there is room for just now',
    hint: 'Ask for fewer or shorter answers at a time, and again shortly.',
  },
  refused_address: {
    code: 'egress_refused',
    what: 'has a base URL that may not be reached from here',
    hint: 'Only public addresses are; PLINTH_EGRESS_ALLOW opens others.',
  },
};

// Where a provider does not say when to come back.
const comeBackAfterMs = 30_000;

const headersOf = ({ kind, retryAfterMs }: ProviderFault): Pick<ErrorExtras, 'headers'> => {
  if (kind === 'overloaded') return { headers: { 'Retry-After': '2' } };
  if (kind !== 'rate_limited') return {};
  return { headers: { 'Retry-After': String(Math.max(1, Math.ceil((retryAfterMs ?? comeBackAfterMs) / 1000))) } };
};

// Faults of which the provider, or its reader, has details.
const explained: ReadonlySet<FaultKind> = new Set([
  'auth',
  'rate_limited',
  'bad_request',
  'context_length',
  'model_not_found',
  'unavailable',
  'bad_answer',
]);

/** With which key a provider was asked. */
type ProviderRef = Pick<ProviderKey, 'provider' | 'target'>;

/** They go with the opened keys that they are made of. */
const filters = new WeakMap<ProviderRef['target'], SecretFilter>();

const filterFor = (target: ProviderRef['target']): SecretFilter => {
  const filter = filters.get(target) ?? createSecretFilter(target.apiKey);
  filters.set(target, filter);
  return filter;
};

/** Before anybody reads it, a log line included: what the provider says may repeat the key in any form. */
const withoutKey = ({ target }: ProviderRef, fault: ProviderFault): ProviderFault => {
  const { kind, message, status, retryAfterMs, cause } = fault;
  return new ProviderFault(kind, filterFor(target)(message), { status, retryAfterMs, cause });
};

const inWords = ({ provider }: ProviderRef, { kind, message }: ProviderFault): string => {
  const sentence = `${providerFacts[provider].label} ${meanings[kind].what}`;
  return explained.has(kind) && message !== '' ? `${sentence}: ${message}` : `${sentence}.`;
};

/** A fault in words: what a caller may read of it. */
export const sentenceOf = (ref: ProviderRef, fault: ProviderFault): string => inWords(ref, withoutKey(ref, fault));

/**
 * Whether the provider has said its last word, or never had the request: nothing of it is going on. After a time-out,
 * and after an answer that was broken off or not understood, it may be.
 */
export const isAnswered = (error: unknown): boolean => {
  if (!(error instanceof ProviderFault)) return false;
  const { kind, status } = error;
  if (kind === 'timeout') return isConnectTimeout(error);
  return status !== null || (kind !== 'cut' && kind !== 'bad_answer' && kind !== 'overloaded');
};

/** Returns the caller's error for a fault at a provider. Any other value is returned as it is. */
export const explainFault = (ref: ProviderRef, error: unknown): unknown => {
  if (!(error instanceof ProviderFault)) return error;
  const { code, hint } = meanings[error.kind];
  const cause = withoutKey(ref, error);
  return new ServiceError(code, inWords(ref, cause), {
    details: { provider: ref.provider, status: error.status },
    ...(hint !== undefined && { hint }),
    ...headersOf(error),
    cause,
  });
};

const maxRetries = 2;
/** Whatever the provider says. */
const maxTries = 5;
const firstPauseMs = 200;
/** A pause that a provider asks for is observed, up to this sum. */
const maxWaitMs = 10_000;
// A provider that says 0 is not asked in the same moment.
const minWaitMs = 100;

interface Tried {
  tries: number;
  failures: number;
  /** For what the provider asked for. */
  waitedMs: number;
}

/** It could not serve, or was not reached. */
const isWorthAnother = (fault: ProviderFault): boolean =>
  fault.kind === 'unavailable' || fault.kind === 'unreachable' || isConnectTimeout(fault);

/** How long to wait before it is asked again; null: not again. */
const pauseAfter = (error: unknown, tried: Tried): number | null => {
  tried.tries += 1;
  if (!(error instanceof ProviderFault) || tried.tries === maxTries) return null;
  if (error.kind === 'rate_limited' && error.retryAfterMs !== null) {
    const waitMs = Math.max(error.retryAfterMs, minWaitMs);
    tried.waitedMs += waitMs;
    return tried.waitedMs <= maxWaitMs ? waitMs : null;
  }
  if (!isWorthAnother(error)) return null;
  tried.failures += 1;
  // Full jitter: what failed together does not come back together.
  return tried.failures > maxRetries ? null : Math.random() * firstPauseMs * 2 ** (tried.failures - 1);
};

/** Ends early when the caller has left. */
const pause = (ms: number, abort: Disconnection): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      abort.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    abort.addEventListener('abort', done);
  });

/**
 * Asks again what failed before its first byte: 5xx and connections that are lost or not made twice, a 429 as the
 * provider requests, up to 10 s in all; five times at most, the first included.
 * @param onRetry is called before each attempt but the first
 */
export const withRetries = async <T>(
  attempt: () => Promise<T>,
  abort: Disconnection,
  onRetry: () => void = () => undefined,
): Promise<T> => {
  const tried: Tried = { tries: 0, failures: 0, waitedMs: 0 };
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      const pauseMs = abort.aborted ? null : pauseAfter(error, tried);
      if (pauseMs === null) throw error;
      await pause(pauseMs, abort);
      if (abort.aborted) throw error;
      onRetry();
    }
  }
};

// A shorter piece of a key is found in innocent words, and does not help anybody to guess the rest.
const maxHarmlessLength = 7;
// Shorter ones are no keys.
const minSecretLength = 6;

/** One character as JSON or a URL may write it; several backslashes come of JSON within JSON. */
const written = /\\+u00([\da-f]{2})|%([\da-f]{2})|\\+([^\\])|[^]/gi;

interface Character {
  readonly meant: string;
  /** As it stands in the text. */
  readonly whole: string;
}

const charactersOf = (text: string): readonly Character[] =>
  Array.from(text.matchAll(written), ([whole, unicode, percent, escaped]) => {
    const code = unicode ?? percent;
    return { whole, meant: code === undefined ? (escaped ?? whole) : String.fromCharCode(Number.parseInt(code, 16)) };
  });

const meaningOf = (characters: readonly Character[]): string => characters.map(({ meant }) => meant).join('');

/** In base64 at each of the three places where it may begin, such as after `user:`; in both alphabets. */
const base64Forms = (secret: string): readonly string[] =>
  [0, 1, 2].flatMap((before) => {
    const packed = Buffer.from('\0'.repeat(before) + secret);
    return [packed.toString('base64'), packed.toString('base64url')];
  });

const piecesOf = (secret: string, length: number): ReadonlySet<string> => {
  const pieces = new Set<string>();
  for (const form of [secret, meaningOf(charactersOf(secret)), ...base64Forms(secret)]) {
    for (let at = 0; at + length <= form.length; at += 1) pieces.add(form.slice(at, at + length));
  }
  return pieces;
};

/** Takes a key out of a text; the text is short: what a provider says of an error. */
export type SecretFilter = (text: string) => string;

const withoutPieces = (text: string, pieces: ReadonlySet<string>, length: number): string => {
  const characters = charactersOf(text);
  const meant = meaningOf(characters);
  let [clean, hiddenTo] = ['', 0];
  characters.forEach(({ whole }, at) => {
    if (pieces.has(meant.slice(at, at + length))) {
      if (hiddenTo <= at) clean += '[key]';
      hiddenTo = at + length;
    }
    if (hiddenTo <= at) clean += whole;
  });
  return clean;
};

/**
 * Gives texts without the key and without any piece of eight of its characters, however the provider writes it: plain,
 * with escapes of JSON or URLs, or in base64. To be kept for as long as the key: the pieces cost more than the texts.
 */
export const createSecretFilter = (secret: string): SecretFilter => {
  if (secret.length < minSecretLength) return (text) => text;
  const length = Math.min(secret.length, maxHarmlessLength + 1);
  const pieces = piecesOf(secret, length);
  return (text) => withoutPieces(text, pieces, length);
};
