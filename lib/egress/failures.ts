import { ServiceError } from '../errors.ts';

/**
 * An address that nothing of ours connects to. The message says the host as its author wrote it, no address behind it.
 */
export class EgressRefused extends ServiceError {
  constructor(message: string, hint?: string) {
    super('egress_refused', message, hint === undefined ? {} : { hint });
  }
}

/** A host that is not a public address, or leads to one that is not. */
export const hostRefused = (host: string): EgressRefused =>
  new EgressRefused(
    `The host ${host} may not be reached from here.`,
    'Only public addresses are; PLINTH_EGRESS_ALLOW opens others.',
  );

/** Why a request that was allowed has no answer. */
export type EgressReason =
  | 'timeout'
  | 'name_not_found'
  | 'name_lookup_failed'
  | 'connection_failed'
  | 'connection_lost'
  | 'tls_failed'
  | 'invalid_request'
  | 'invalid_answer';

const sentences = {
  timeout: (host) => `${host} did not answer in time.`,
  name_not_found: (host) => `There is no address for ${host}.`,
  name_lookup_failed: (host) => `The address of ${host} could not be looked up.`,
  connection_failed: (host) => `No connection to ${host} could be made.`,
  connection_lost: (host) => `${host} closed the connection before it had answered.`,
  tls_failed: (host) => `There is no safe connection to ${host}: its certificate or TLS is not acceptable.`,
  invalid_request: (host) => `The request to ${host} is not valid HTTP: its method or a header is not acceptable.`,
  invalid_answer: (host) => `The answer of ${host} is not valid HTTP.`,
} as const satisfies Record<EgressReason, (host: string) => string>;

/** A request that was allowed and failed. The message may be shown to its author; the cause may hold addresses. */
export class EgressFailed extends Error {
  override readonly name = 'EgressFailed';
  readonly reason: EgressReason;

  constructor(reason: EgressReason, host: string, cause?: unknown) {
    super(sentences[reason](host), { cause });
    this.reason = reason;
  }
}

const reasons: readonly (readonly [RegExp, EgressReason])[] = [
  [/^(ETIMEDOUT|UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT)$/, 'timeout'],
  [/^(ECONNRESET|EPIPE|UND_ERR_SOCKET|UND_ERR_RES_CONTENT_LENGTH_MISMATCH)$/, 'connection_lost'],
  [
    /^(UND_ERR_INVALID_ARG|UND_ERR_NOT_SUPPORTED|UND_ERR_REQ_CONTENT_LENGTH_MISMATCH|ERR_INVALID_\w+)$/,
    'invalid_request',
  ],
  [/^(UND_ERR_HEADERS_OVERFLOW|UND_ERR_RESPONSE\w*)$/, 'invalid_answer'],
  [/^(ERR_TLS\w*|ERR_SSL\w*|EPROTO|CERT_\w+|\w*_CERT\w*|\w+_SIGNATURE\w*|HOSTNAME_MISMATCH)$/, 'tls_failed'],
];

const field = (error: unknown, name: 'code' | 'name'): string => {
  const value: unknown = typeof error === 'object' && error !== null ? Reflect.get(error, name) : undefined;
  return typeof value === 'string' ? value : '';
};

const reasonOf = (error: unknown): EgressReason => {
  // undici gives it a code for some of its causes only.
  if (field(error, 'name') === 'HTTPParserError') return 'invalid_answer';
  return reasons.find(([codes]) => codes.test(field(error, 'code')))?.[1] ?? 'connection_failed';
};

/** The failure of a request to `host`, in terms that its author may see, and with the host as the author wrote it. */
export const explainFailure = (error: unknown, host: string): EgressRefused | EgressFailed => {
  if (error instanceof EgressRefused) return hostRefused(host);
  if (error instanceof EgressFailed) return new EgressFailed(error.reason, host, error);
  return new EgressFailed(reasonOf(error), host, error);
};
