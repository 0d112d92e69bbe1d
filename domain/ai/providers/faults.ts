import { type FaultKind, ProviderFault } from './dialect.ts';
import { type Loose, countIn, listIn, objectIn, textIn } from './json.ts';

/** The error that a provider reports, in whatever dialect. */
export interface ReportedError {
  readonly message: string;
  /** All that names the kind of the error: codes, types, reasons. */
  readonly codes: readonly string[];
  /** Reported within the body. */
  readonly retryAfterMs?: number | null;
}

const maxMessageLength = 500;

/** A provider's own words, as they may be shown: on one line, and not long. */
export const cleanMessage = (message: string): string => {
  const clean = message.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return clean.length <= maxMessageLength ? clean : `${clean.slice(0, maxMessageLength - 1).toWellFormed()}…`;
};

/** Milliseconds of a Retry-After: seconds or a date (RFC 9110, 10.2.3); null when it is neither. */
export const retryAfterMsOf = (value: string | undefined, now = Date.now()): number | null => {
  if (value === undefined) return null;
  const text = value.trim();
  if (/^\d{1,9}(\.\d+)?$/.test(text)) return Math.round(Number(text) * 1000);
  const at = /[a-z]{3}/i.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? null : Math.max(0, at - now);
};

const authCodes =
  /^(invalid_api_key|authentication_error|permission_error|UNAUTHENTICATED|PERMISSION_DENIED|API_KEY_\w+)$/;
const modelCodes = /^(model_not_found|model_not_active|model_decommissioned)$/;
const lengthCodes = /^(context_length_exceeded|exceed_context_size_error|string_above_max_length)$/;
// Nothing to wait for: it needs money, not time.
const quotaCodes = /^(insufficient_quota|billing_error|billing_not_active|billing_hard_limit_reached)$/;
const rateCodes = /^(rate_limit_exceeded|rate_limit_error|RESOURCE_EXHAUSTED|tokens|requests)$/;
const busyCodes =
  /^(overloaded_error|api_error|server_error|internal_server_error|UNAVAILABLE|INTERNAL|DEADLINE_EXCEEDED)$/;

/** How the six, vLLM and llama.cpp say that the prompt is too long. */
const lengthWords = new RegExp(
  "(maximum|model's) (context|prompt) length|prompt is too long|exceed context limit|input token count.{0,40}exceeds|" +
    'exceeds? the (available |maximum )?context|reduce the length of the (messages|prompt)|context window',
  'i',
);
const modelWords = /\bmodels?\b/i;
const keyWords = /api key (not valid|not found|expired)/i;

const has = (codes: readonly string[], known: RegExp): boolean => codes.some((code) => known.test(code));

/** By what the provider calls it, whatever the status. */
const kindByCodes = ({ codes, message }: ReportedError): FaultKind | null => {
  if (has(codes, quotaCodes)) return 'rate_limited';
  if (has(codes, lengthCodes)) return 'context_length';
  if (has(codes, modelCodes)) return 'model_not_found';
  if (has(codes, authCodes) || keyWords.test(message)) return 'auth';
  if (has(codes, rateCodes)) return 'rate_limited';
  if (has(codes, busyCodes)) return 'unavailable';
  return null;
};

const kindByStatus = (status: number, { message }: ReportedError): FaultKind => {
  if (status === 401 || status === 403) return 'auth';
  if (status === 402 || status === 429) return 'rate_limited';
  if (status === 404 && modelWords.test(message)) return 'model_not_found';
  if (status === 408 || status >= 500) return 'unavailable';
  return status >= 400 ? 'bad_request' : 'bad_answer';
};

const isTooLong = (status: number, { message }: ReportedError): boolean =>
  (status === 400 || status === 413 || status === 422) && lengthWords.test(message);

const kindOf = (status: number | null, reported: ReportedError): FaultKind => {
  if (status === null) {
    if (lengthWords.test(reported.message)) return 'context_length';
    // In a stream that had started the provider's side failed, unless it reports otherwise.
    return kindByCodes(reported) ?? 'unavailable';
  }
  if (isTooLong(status, reported)) return 'context_length';
  // A status that is clear is believed before a code: `type` of a 500 may be anything.
  if (status >= 500 || status === 401) return kindByStatus(status, reported);
  return kindByCodes(reported) ?? kindByStatus(status, reported);
};

/** @param status null: it came within a stream */
const faultOf = (status: number | null, reported: ReportedError, retryAfter?: string): ProviderFault => {
  const waits = !has(reported.codes, quotaCodes) && status !== 402;
  return new ProviderFault(kindOf(status, reported), cleanMessage(reported.message), {
    status,
    retryAfterMs: waits ? (retryAfterMsOf(retryAfter) ?? reported.retryAfterMs ?? null) : null,
  });
};

const parseLoosely = (body: string): unknown => {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
};

/**
 * The `error` of a body, which all dialects have in some form: an object with a message, or text. A page of a proxy
 * between says nothing that is worth showing.
 */
const errorIn = (body: string): Loose => {
  const parsed = parseLoosely(body);
  const whole = objectIn(Array.isArray(parsed) ? (parsed as unknown[])[0] : parsed);
  const { error } = whole;
  if (typeof error === 'string') return { message: error };
  const inner = objectIn(error);
  return textIn(inner['message']) === '' ? { ...whole, ...inner } : inner;
};

/** OpenAI's `code` and `type`, Anthropic's `type`, Google's `status` and the reasons in its `details`. */
const reportedErrorOf = (error: Loose): ReportedError => {
  const details = listIn(error['details']).map(objectIn);
  const codes = [error['code'], error['type'], error['status'], ...details.map((one) => one['reason'])];
  const delay = /^(\d+(?:\.\d+)?)s$/.exec(details.map((one) => textIn(one['retryDelay'])).join(''))?.[1];
  return {
    message: textIn(error['message']) || textIn(error['detail']),
    codes: codes.filter((code) => typeof code === 'string'),
    retryAfterMs: delay === undefined ? null : Math.round(Number(delay) * 1000),
  };
};

/** The meaning of an answer that is no success, in each of the dialects. */
export const readFault = (status: number, body: string, retryAfter: string | undefined): ProviderFault =>
  faultOf(status, reportedErrorOf(errorIn(body)), retryAfter);

/** The meaning of an error within an answer of status 200; some name the status that it would have had. */
export const sentFault = (error: Loose): ProviderFault => {
  const status = countIn(error['code']);
  return faultOf(status !== null && status >= 400 && status < 600 ? status : null, reportedErrorOf(error));
};
