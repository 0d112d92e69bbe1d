import { z } from 'zod';
import { getFunctionVersion } from '#domain/functions/functions.ts';
import { type LogFilter, searchLogs } from '#domain/functions/log-search.ts';
import { type JobEndLine, levelOfEnd, listJobEnds } from '#domain/jobs/ends.ts';
import { type ListedDelivery, listProjectDeliveries } from '#domain/webhooks/deliveries.ts';
import { type DeliveryStatus, deliveryStatuses } from '#domain/webhooks/store.ts';
import { createConcurrencyLimit } from '#lib/concurrency-limit.ts';
import { ServiceError } from '#lib/errors.ts';
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

const sources = ['function', 'job', 'webhook'] as const;

const query = z.object({
  q: text(200, 1).optional().describe('A text in the message or the fields, without regard to case.'),
  function: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,62}$/)
    .optional()
    .describe('The id or the slug of a function.'),
  level: levels.optional(),
  since: z.iso.datetime({ offset: true }).optional(),
  source: z
    .enum(sources)
    .default('function')
    .describe('What functions log, how jobs ended, or how deliveries of webhooks went.'),
  request_id: text(64, 1).optional().describe('Of the request that led to it; deliveries have none.'),
  cursor: z.string().max(200).optional().describe('`next` of the page before.'),
  limit: wholeNumber(100, 1, 1000),
});

const line = namedObject('LogLine', {
  ts: z.string(),
  level: z.string(),
  source: z.enum(sources),
  message: z.string(),
  fields: z.record(z.string(), z.unknown()).nullable(),
  function_id: id.nullable(),
  invocation_id: id.nullable(),
  line: z.int().nullable().describe('Its place among the lines of its run, from 1 on.'),
  job_id: id.optional().describe('Of an end of a job.'),
  webhook_id: id.optional(),
  delivery_id: id.optional(),
  request_id: z.string().nullable().describe('Null when the job of the run is not kept any more, and in live lines.'),
});

const isId = (name: string): boolean => z.uuid().safeParse(name).success;

const badCursor = (): ServiceError =>
  new ServiceError('validation_failed', 'The query is not valid.', {
    details: [{ path: 'cursor', message: 'must be the `next` of an earlier page' }],
  });

type ShownLine = z.output<typeof line>;

const ofNothing = {
  function_id: null,
  invocation_id: null,
  line: null,
} as const;

const shownWith = ({ fields }: LogLine) => ({
  ...ofNothing,
  source: 'function' as const,
  fields: fields === undefined ? null : { ...fields },
});

const shownEnd = (end: JobEndLine): ShownLine => ({
  ...ofNothing,
  ts: end.finished_at.toISOString(),
  level: levelOfEnd(end.status),
  source: 'job',
  message: [`${end.type} ${end.status}`, end.error_message].filter((part) => part !== null).join(': '),
  fields: { attempt: end.attempt, ...(end.error_code !== null && { code: end.error_code }) },
  job_id: end.id,
  request_id: end.request_id,
});

const deliveryLevels = {
  success: 'info',
  pending: 'debug',
  skipped: 'warn',
  failed: 'error',
  exhausted: 'error',
} as const satisfies Record<DeliveryStatus, LogLevel>;

const shownDelivery = (row: ListedDelivery): ShownLine => ({
  ...ofNothing,
  ts: row.created_at.toISOString(),
  level: deliveryLevels[row.status],
  source: 'webhook',
  message: [`${row.event} ${row.status}`, row.error].filter((part) => part !== null).join(': '),
  fields: { attempt: row.attempt, status_code: row.status_code, response_time_ms: row.response_time_ms },
  webhook_id: row.webhook_id,
  delivery_id: row.id,
  request_id: null,
});

interface FoundLines {
  readonly logs: ShownLine[];
  readonly next: string | null;
}

type Given = z.output<typeof query>;

const timeOf = (since: string | undefined): Date | undefined => (since === undefined ? undefined : new Date(since));

const endsOfJobs = async (given: Given, { deps, project }: Call<InProject>): Promise<FoundLines> => {
  const { q, level, since, request_id: requestId, cursor, limit } = given;
  const filter = { text: q, levels: level, since: timeOf(since), requestId, cursor, limit };
  const { ends, next } = await listJobEnds(deps.db, project.id, filter);
  return { logs: ends.map(shownEnd), next };
};

const statusesOf = (wanted: readonly LogLevel[] | undefined): DeliveryStatus[] | undefined =>
  wanted && deliveryStatuses.filter((status) => wanted.includes(deliveryLevels[status]));

const deliveriesOf = async (given: Given, { deps, project }: Call<InProject>): Promise<FoundLines> => {
  const { q, level, since, request_id: requestId, cursor, limit } = given;
  if (requestId !== undefined) return { logs: [], next: null };
  if (cursor !== undefined && !isId(cursor)) throw badCursor();
  const filter = { text: q, statuses: statusesOf(level), since: timeOf(since), before: cursor, limit };
  const { deliveries, next } = await listProjectDeliveries(deps.db, project.id, filter);
  return { logs: deliveries.map(shownDelivery), next };
};

const maxSearches = 2;
const withSearch = createConcurrencyLimit(
  maxSearches,
  () =>
    new ServiceError('rate_limited', `Only ${maxSearches} searches of a project's jobs or deliveries run at a time.`, {
      headers: { 'Retry-After': '2' },
    }),
);

const invalidSource = (message: string): ServiceError =>
  new ServiceError('validation_failed', 'The query is not valid.', { details: [{ path: 'source', message }] });

/** Lines of other sources than functions are made of the rows of jobs and deliveries; they are not followed. */
const otherLines = (given: Given, call: Call<InProject>): Promise<FoundLines> => {
  if (call.wantsEvents) throw invalidSource('must be function: only what functions log is followed live');
  if (given.function !== undefined) throw invalidSource('must be function beside the name of a function');
  const read = given.source === 'job' ? endsOfJobs : deliveriesOf;
  return withSearch(`${call.project.id} ${given.source}`, () => read(given, call));
};

/** @throws {ServiceError} `not_found` for a slug of no function; the logs of one that was deleted are found by its id */
const filterOf = async (
  { q, function: name, level, since, request_id: requestId }: Given,
  { db, project }: Call<InProject>,
): Promise<LogFilter> => ({
  text: q,
  functionId: name === undefined || isId(name) ? name : (await getFunctionVersion(db, project.id, { slug: name })).id,
  levels: level,
  since: timeOf(since),
  requestId,
});

/** The logs of a project (contract, sections 12 and 13). */
export const logEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/logs',
    area: 'functions',
    summary: 'Search what functions log, the latest run first; live with Accept: text/event-stream',
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
      if (given.source !== 'function') return otherLines(given, call);
      const filter = await filterOf(given, call);
      if (!wantsEvents) {
        const { logs, next } = await searchLogs(db, project.id, {
          ...filter,
          cursor: given.cursor,
          limit: given.limit,
        });
        return { logs: logs.map((found) => ({ ...shownWith(found), ...found, fields: found.fields ?? null })), next };
      }
      const who = { projectId: project.id, userId: user.id, signInId };
      const events = await projectLogEvents(deps, who, { filter, lastEventId: http.headers['last-event-id'] });
      for (const [name, value] of Object.entries(eventStreamHeaders)) setHeader(name, value);
      return events;
    },
  }),
];
