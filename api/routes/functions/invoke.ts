import { z } from 'zod';
import { invocation, monthlyCaps } from '#domain/functions/functions.ts';
import { ServiceError } from '#lib/errors.ts';
import { TooManyValues, parseExactJson } from '#lib/json.ts';
import { scanJson } from '#lib/json-scan.ts';
import { runResult } from '#api/shapes/functions.ts';
import { inProject } from '../../access.ts';
import { type Endpoint, jobEndpoint } from '../../endpoint.ts';
import { id } from '../../fields.ts';
import { timedReply } from '../../http/server-timing.ts';
import { runAnswer } from '../../run-answer.ts';

const area = 'functions';

const anySize = { maxParts: Infinity, maxDepth: 1000 };

/** Builds nothing: a payload of 6 MB may be two million objects. */
export const isJson = (text: string): boolean => scanJson(Buffer.from(text), anySize).verdict === 'valid';

/** JSON may escape each letter of the name, in digits of either case. */
const payloadName = 'payload'.replaceAll(/./g, (letter) => `(?:${letter}|\\\\u00${letter.charCodeAt(0).toString(16)})`);
const beforePayload = new RegExp(`^\\s*\\{\\s*"${payloadName}"\\s*:`, 'i');

/** In a body that names its payload twice. */
const maxExactValues = 100_000;

const exactBody = (bodyText: string): { payload?: unknown } => {
  try {
    return parseExactJson(bodyText, maxExactValues) as { payload?: unknown };
  } catch (error) {
    if (!(error instanceof TooManyValues)) throw error;
    const details = [{ path: 'payload', message: 'must be named once in a large body' }];
    throw new ServiceError('validation_failed', 'The body is not valid.', { details });
  }
};

/**
 * The payload's own text out of a body that was found to be `{"payload": …}`: as it came, numbers that JavaScript
 * cannot hold included.
 */
export const payloadText = (bodyText: string): string => {
  const inside = beforePayload.exec(bodyText);
  const text = inside && bodyText.slice(inside[0].length, bodyText.lastIndexOf('}'));
  if (text && isJson(text)) return text.trim();
  // The name stands there twice, or not at all.
  const { payload } = bodyText === '' ? {} : exactBody(bodyText);
  return JSON.stringify(payload ?? null);
};

/** Runs of functions on request (interface, "Functions"). */
export const invokeEndpoints: readonly Endpoint[] = [
  jobEndpoint({
    method: 'post',
    path: '/projects/{project_id}/functions/{function_id}/invoke',
    area,
    summary: 'Run a function and wait for its result; 200 whatever the handler did',
    access: { ...inProject('developer'), checkedByInsert: true },
    params: z.object({ project_id: id, function_id: id }),
    rate: 'none',
    bodyLimit: 'function',
    body: z.strictObject({ payload: z.unknown() }),
    response: runResult,
    request: async ({ params, bodyText }, { deps, project, member, requestId }) => {
      const [payload, caps] = [payloadText(bodyText), monthlyCaps(deps.config)];
      const order = { by: { id: params.function_id }, payload, trigger: 'dashboard', requestId, caps, member } as const;
      return invocation(deps.functionVersions, project, order);
    },
    answer: (done, call) => Promise.resolve(timedReply(runAnswer(done), call)),
  }),
];
