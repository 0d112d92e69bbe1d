import { z } from 'zod';
import { invocation, monthlyCaps } from '#domain/functions/functions.ts';
import { parseExactJson } from '#lib/json.ts';
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

/**
 * The payload's own text out of a body that was found to be `{"payload": …}`: as it came, numbers that JavaScript
 * cannot hold included.
 */
const payloadText = (bodyText: string): string => {
  const inside = /^\s*\{\s*"payload"\s*:/.exec(bodyText);
  const text = inside && bodyText.slice(inside[0].length, bodyText.lastIndexOf('}'));
  if (text && isJson(text)) return text.trim();
  // The name is escaped, or stands there twice, or not at all.
  const { payload } = (bodyText === '' ? {} : parseExactJson(bodyText)) as { payload?: unknown };
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
