import { z } from 'zod';
import { type ProjectLine, lineSources } from '#queues/signals.ts';
import { id, namedObject } from '../fields.ts';

/** The sources of a project's log. */
export const logSources = ['function', 'job', 'webhook', ...lineSources] as const;

/** A line of a project's log. */
export const logLine = namedObject('LogLine', {
  ts: z.string(),
  level: z.string(),
  source: z.enum(logSources),
  message: z.string(),
  fields: z.record(z.string(), z.unknown()).nullable(),
  function_id: id.nullable(),
  invocation_id: id.nullable(),
  line: z.int().nullable().describe('Its place among the lines of its run, from 1 on.'),
  id: id.optional().describe('Of a line about a request, a mail or a call of a model.'),
  job_id: id.optional().describe('Of an end of a job.'),
  webhook_id: id.optional(),
  delivery_id: id.optional(),
  email_id: id.optional(),
  ai_call_id: id.optional(),
  request_id: z
    .string()
    .nullable()
    .describe('Null when the job of the run or the mail is not kept any more, and in live lines of functions.'),
});
export type ShownLine = z.output<typeof logLine>;

/** The fields that only lines of functions have, for other lines. */
export const ofNoRun = {
  function_id: null,
  invocation_id: null,
  line: null,
} as const;

export const shownLine = (line: ProjectLine): ShownLine => ({ ...ofNoRun, ...line });
