import { z } from 'zod';
import { draftRun } from '#domain/functions/drafts.ts';
import { getFunction, monthlyCaps } from '#domain/functions/functions.ts';
import { ServiceError } from '#lib/errors.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { deployBody } from '#api/shapes/function-files.ts';
import { inProject } from '../../access.ts';
import { type Endpoint, jobEndpoint } from '../../endpoint.ts';
import { id } from '../../fields.ts';
import { timedReply } from '../../http/server-timing.ts';
import { runAnswer } from '../../run-answer.ts';
import { codeFields, requireEntryPoint, requireServed, sourceFields, textsOf } from '../functions.ts';
import { isJson } from './invoke.ts';

const invalid = (path: string, message: string): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', { details: [{ path, message }] });

const body = z.strictObject({
  ...sourceFields,
  entry_point: codeFields.entry_point.optional().describe('Left out: that of the function.'),
  payload: z
    .string()
    .refine(isJson, { error: 'must be JSON text' })
    .default('null')
    .describe('The payload as JSON text, so that it reaches the handler exactly as it is written.'),
});

/** Code that is tried before it is deployed (contract, section 4). */
export const draftEndpoints: readonly Endpoint[] = [
  jobEndpoint({
    method: 'post',
    path: '/projects/{project_id}/functions/{function_id}/drafts',
    area: 'functions',
    summary: 'Run code without deploying it, with the limits and variables of its function',
    access: inProject('developer'),
    params: z.object({ project_id: id, function_id: id }),
    body,
    readBody: deployBody(body),
    bodyLimit: 'deploy',
    response: functionInvoke.result,
    request: async ({ params, body: given }, call) => {
      const { db, deps, project, requestId } = call;
      const present = await getFunction(db, project.id, params.function_id);
      requireEntryPoint(present.language, given.entry_point);
      await requireServed(present.language, call);
      const entryPoint = given.entry_point ?? present.entry_point;
      const texts = await textsOf(given, { language: present.language, entry_point: entryPoint }, call);
      if (texts === undefined) throw invalid('code', 'is required, or files');
      const draft = { functionId: present.id, entryPoint, texts };
      return draftRun(db, project, draft, { payload: given.payload, requestId, caps: monthlyCaps(deps.config) });
    },
    answer: (done, call) => Promise.resolve(timedReply(runAnswer(done), call)),
  }),
];
