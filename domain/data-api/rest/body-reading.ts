import { DataError } from '#domain/data-api/errors.ts';
import {
  type NamedArguments,
  type Payload,
  mediaTypeOf,
  readArguments,
  readPayload,
  wholeBodyType,
} from './payload.ts';
import type { RestRequest, Target } from './request.ts';

/** The result of a function, or its refusal: a DataError does not keep its class between threads. */
export type Outcome<T> =
  | { readonly value: T }
  | { readonly refusal: Pick<DataError, 'status' | 'code' | 'message' | 'details' | 'hint'> };

/** @throws what is no refusal */
export const outcomeOf = <T>(make: () => T): Outcome<T> => {
  try {
    return { value: make() };
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    const { status, code, message, details, hint } = error;
    return { refusal: { status, code, message, details, hint } };
  }
};

/** @throws {DataError} the refusal */
export const valueOf = <T>(outcome: Outcome<T>): T => {
  if ('value' in outcome) return outcome.value;
  const { status, code, message, details, hint } = outcome.refusal;
  throw new DataError(status, code, message, { details, hint });
};

/** A body that was read before its request is answered. What is wrong with it is thrown when somebody asks for it. */
export type ReadBody =
  | { readonly kind: 'payload'; readonly outcome: Outcome<Payload> }
  | { readonly kind: 'arguments'; readonly outcome: Outcome<NamedArguments> };

/** The facts that decide how a body is read. They can be sent to a thread. */
export interface BodyUse {
  readonly kind: ReadBody['kind'];
  readonly contentType: string;
}

const writing = new Set(['POST', 'PATCH', 'PUT']);

/** Returns how the body of a request will be read; null where it is not parsed. */
export const useOf = (method: string, target: Target, contentType: string): BodyUse | null => {
  if (target.kind !== 'function') return writing.has(method) ? { kind: 'payload', contentType } : null;
  const isWhole = wholeBodyType(mediaTypeOf(contentType)) !== undefined;
  return method !== 'POST' || isWhole ? null : { kind: 'arguments', contentType };
};

export const readBody = ({ kind, contentType }: BodyUse, bytes: Buffer): ReadBody =>
  kind === 'payload'
    ? { kind, outcome: outcomeOf(() => readPayload(contentType, bytes)) }
    : { kind, outcome: outcomeOf(() => readArguments(contentType, bytes)) };

/**
 * Reads the payload of a write.
 * @throws {DataError} PGRST102
 */
export const payloadOf = ({ read, header, body }: RestRequest): Payload =>
  read?.kind === 'payload' ? valueOf(read.outcome) : readPayload(header('content-type'), body);

/**
 * The arguments that a request calls a function with.
 * @throws {DataError} PGRST102
 */
export const argumentsOf = ({ read, header, body }: RestRequest): NamedArguments =>
  read?.kind === 'arguments' ? valueOf(read.outcome) : readArguments(header('content-type'), body);
