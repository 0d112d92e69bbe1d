import { z } from 'zod';
import { getFunctionVersion } from '#domain/functions/functions.ts';
import { type LogFilter, searchLogs } from '#domain/functions/log-search.ts';
import { levelBits } from '#domain/functions/run-report.ts';
import type { LogLevel, LogLine } from '#domain/jobs/logs.ts';
import { projectLogEvents } from '#api/streams/project-logs.ts';
import { eventStreamHeaders } from '#api/streams/sse.ts';
import { type InProject, inProject } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, namedObject, text, wholeNumber } from '../../fields.ts';

const levelNames = Object.keys(levelBits) as LogLevel[];

const levels = z
  .string()
  .transform((names) => names.split(','))
  .pipe(z.array(z.enum(levelNames)))
  .describe('One or several with commas between them: debug, info, warn, error.');

const query = z.object({
  q: text(200, 1).optional().describe('A text in the message or the fields, without regard to case.'),
  function: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,62}$/)
    .optional()
    .describe('The id or the slug of a function.'),
  level: levels.optional(),
  since: z.iso.datetime({ offset: true }).optional(),
  cursor: z.string().max(200).optional().describe('`next` of the page before.'),
  limit: wholeNumber(100, 1, 1000),
});

const line = namedObject('LogLine', {
  ts: z.string(),
  level: z.string(),
  source: z.literal('function'),
  message: z.string(),
  fields: z.record(z.string(), z.unknown()).nullable(),
  function_id: id,
  invocation_id: id,
  line: z.int().describe('Its place among the lines of its run, from 1 on.'),
  request_id: z.string().nullable().describe('Null when the job of the run is not kept any more, and in live lines.'),
});

const shownWith = ({ fields }: LogLine) =>
  ({ source: 'function', fields: fields === undefined ? null : { ...fields } }) as const;

const isId = (name: string): boolean => z.uuid().safeParse(name).success;

/** @throws {ServiceError} `not_found` for a slug of no function; the logs of one that was deleted are found by its id */
const filterOf = async (
  { q, function: name, level, since }: z.output<typeof query>,
  { db, project }: Call<InProject>,
): Promise<LogFilter> => ({
  text: q,
  functionId: name === undefined || isId(name) ? name : (await getFunctionVersion(db, project.id, { slug: name })).id,
  levels: level,
  since: since === undefined ? undefined : new Date(since),
});

/** The logs of a project (contract, sections 12 and 13). */
export const logEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/logs',
    area: 'functions',
    summary: 'Search the logs of all functions, the latest run first; live with Accept: text/event-stream',
    access: inProject('viewer'),
    params: z.object({ project_id: id }),
    query,
    response: z.object({
      logs: z.array(line),
      next: z
        .string()
        .nullable()
        .describe('For `cursor`; null at the end. A search of 2 s ends before it, perhaps with no line.'),
    }),
    handle: async ({ query: given }, call) => {
      const { db, deps, project, user, signInId, wantsEvents, setHeader, http } = call;
      const filter = await filterOf(given, call);
      if (!wantsEvents) {
        const { logs, next } = await searchLogs(db, project.id, {
          ...filter,
          cursor: given.cursor,
          limit: given.limit,
        });
        return { logs: logs.map((found) => ({ ...found, ...shownWith(found) })), next };
      }
      const who = { projectId: project.id, userId: user.id, signInId };
      const events = await projectLogEvents(deps, who, { filter, lastEventId: http.headers['last-event-id'] });
      for (const [name, value] of Object.entries(eventStreamHeaders)) setHeader(name, value);
      return events;
    },
  }),
];
