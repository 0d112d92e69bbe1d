import type { z } from 'zod';
import { ServiceError, notFound } from '#lib/errors.ts';
import { lengthFirst } from '#lib/length-first.ts';
import type { Endpoint } from './endpoint.ts';
import { inPlainWords } from './validation-messages.ts';

// A body of a megabyte can be wrong in a hundred thousand places: the answer stays readable.
const maxIssues = 20;
const maxTextLength = 300;

const detailsOf = (error: z.ZodError): { path: string; message: string }[] =>
  error.issues.slice(0, maxIssues).map((issue) => ({
    path: issue.path.join('.').slice(0, maxTextLength),
    message: issue.message.slice(0, maxTextLength),
  }));

const invalid = (where: string, error: z.ZodError): ServiceError =>
  new ServiceError('validation_failed', `The ${where} is not valid.`, { details: detailsOf(error) });

const check = (schema: z.ZodType | undefined, value: unknown, where: string): unknown => {
  if (schema === undefined) return value;
  const parsed = lengthFirst(schema).safeParse(value, { error: inPlainWords });
  if (parsed.success) return parsed.data;
  throw invalid(where, parsed.error);
};

/** A path that cannot name anything names nothing: 404. */
export const checkParams = (endpoint: Endpoint, params: unknown): unknown => {
  if (endpoint.params === undefined) return params;
  const parsed = endpoint.params.safeParse(params);
  if (parsed.success) return parsed.data;
  // The object that the last parameter names stands before it: `/jobs/{job_id}`.
  const [, noun = endpoint.area] = /\/([a-z-]+)\/\{[^}]+\}[^{]*$/.exec(endpoint.path) ?? [];
  throw notFound(noun.replaceAll('-', ' ').replace(/s$/, ''));
};

/** @throws {ServiceError} `validation_failed` with `details: [{path, message}]` */
export const checkQuery = (endpoint: Endpoint, query: unknown): unknown => check(endpoint.query, query, 'query');

/** @throws {ServiceError} `validation_failed` with `details: [{path, message}]` */
export const checkBody = (endpoint: Pick<Endpoint, 'body'>, body: unknown): unknown =>
  check(endpoint.body, body === undefined ? {} : body, 'body');
