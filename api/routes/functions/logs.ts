import { z } from 'zod';
import { getFunctionVersion } from '#domain/functions/functions.ts';
import { type LogFilter, searchLogs } from '#domain/functions/log-search.ts';
import { type JobEndLine, levelOfEnd, listJobEnds } from '#domain/jobs/ends.ts';
import { type ListedDelivery, listProjectDeliveries } from '#domain/webhooks/deliveries.ts';
import { type DeliveryStatus, deliveryStatuses } from '#domain/webhooks/store.ts';
import { type LineFilter, searchLines } from '#domain/logs/search.ts';
import { ServiceError } from '#lib/errors.ts';
import { createSearchLimit } from '#lib/search-limit.ts';
import { type LineSource, lineSources } from '#queues/signals.ts';
import { levelBits } from '#domain/functions/run-report.ts';
import type { LogLevel, LogLine } from '#domain/jobs/logs.ts';
import { lineFeed, projectLogEvents, runFeed } from '#api/streams/project-logs.ts';
import { type ShownLine, logLine, logSources, ofNoRun, shownLine } from '#api/shapes/log-lines.ts';
import { eventStreamHeaders } from '#api/streams/sse.ts';
import { type InProject, inProject } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, type RawReply, endpoint } from '../../endpoint.ts';
import { id, text, wholeNumber } from '../../fields.ts';

const levelNames = Object.keys(levelBits) as LogLevel[];

const levels = z
  .string()
  .transform((names) => names.split(','))
  .pipe(z.array(z.enum(levelNames)))
  .describe('One or several with commas between them: debug, info, warn, error.');

const sources = z
  .string()
  .default('function')
  .transform((names) => names.split(','))
  .pipe(z.array(z.enum(logSources)))
  .describe(
    'function: what functions log. job: how jobs ended. webhook: how deliveries went. One or several with commas between them: mail, auth (sign-ins), data, storage, ai, api (other requests): requests that failed, mails, and calls of models.',
  );

const query = z.object({
  q: text(200, 1).optional().describe('A text in the message or the fields, without regard to case.'),
  function: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,62}$/)
    .optional()
    .describe('The id or the slug of a function.'),
  level: levels.optional(),
  since: z.iso.datetime({ offset: true }).optional(),
  source: sources,
  request_id: text(64, 1).optional().describe('Of the request that led to it; deliveries have none.'),
  cursor: z.string().max(200).optional().describe('`next` of the page before.'),
  limit: wholeNumber(100, 1, 1000),
});

const isId = (name: string): boolean => z.uuid().safeParse(name).success;

const badCursor = (): ServiceError =>
  new ServiceError('validation_failed', 'The query is not valid.', {
    details: [{ path: 'cursor', message: 'must be the `next` of an earlier page' }],
  });

const shownWith = ({ fields }: LogLine) => ({
  ...ofNoRun,
  source: 'function' as const,
  fields: fields === undefined ? null : { ...fields },
});

const shownEnd = (end: JobEndLine): ShownLine => ({
  ...ofNoRun,
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
  ...ofNoRun,
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

const searches = {
  job: createSearchLimit("a project's ends of jobs"),
  webhook: createSearchLimit("a project's deliveries"),
  lines: createSearchLimit("a project's lines of other sources"),
} as const;

const invalidSource = (message: string): ServiceError =>
  new ServiceError('validation_failed', 'The query is not valid.', { details: [{ path: 'source', message }] });

/** The filter of lines that are made of rows. */
const lineFilterOf = (
  { q, level, since, request_id: requestId }: Given,
  wanted: readonly LineSource[],
): LineFilter => ({
  sources: wanted,
  text: q,
  levels: level,
  since: timeOf(since),
  requestId,
});

const rowLines = async (given: Given, { db, project }: Call<InProject>, filter: LineFilter): Promise<FoundLines> => {
  const { cursor, limit } = given;
  if (cursor !== undefined && !isId(cursor)) throw badCursor();
  const { lines, next } = await searchLines(db, project.id, { ...filter, before: cursor, limit });
  return { logs: lines.map(shownLine), next };
};

const isLineSource = (source: string): source is LineSource => (lineSources as readonly string[]).includes(source);

/**
 * The wanted lines: those of functions, ends of jobs, deliveries, or lines of one or several other sources.
 * @throws {ServiceError} `validation_failed` for sources that are not read together
 */
const wantedOf = ({ source: names, function: name }: Given): 'function' | 'job' | 'webhook' | readonly LineSource[] => {
  const others = names.filter(isLineSource);
  const [first = 'function'] = names;
  if (others.length < names.length && names.length > 1)
    throw invalidSource('function, job and webhook are each asked for alone');
  if (name !== undefined && first !== 'function') throw invalidSource('must be function beside the name of a function');
  return isLineSource(first) ? others : first;
};

/** Pages of other sources than functions. */
const otherLines = (
  given: Given,
  call: Call<InProject>,
  wanted: 'job' | 'webhook' | readonly LineSource[],
): Promise<FoundLines> => {
  const { id } = call.project;
  if (wanted === 'job') return searches.job(id, () => endsOfJobs(given, call));
  if (wanted === 'webhook') return searches.webhook(id, () => deliveriesOf(given, call));
  return searches.lines(id, () => rowLines(given, call, lineFilterOf(given, wanted)));
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

/** @throws {ServiceError} `validation_failed` for sources that are not followed */
const follow = async (given: Given, call: Call<InProject>, wanted: ReturnType<typeof wantedOf>): Promise<RawReply> => {
  if (wanted === 'job' || wanted === 'webhook') throw invalidSource('job and webhook are not followed live');
  const { deps, project, user, signInId, setHeader, http } = call;
  const feed =
    wanted === 'function'
      ? runFeed(project.id, await filterOf(given, call))
      : lineFeed(project.id, lineFilterOf(given, wanted));
  const who = { projectId: project.id, userId: user.id, signInId };
  const request = { feed, since: timeOf(given.since), lastEventId: http.headers['last-event-id'] };
  const events = await projectLogEvents(deps, who, request);
  for (const [name, value] of Object.entries(eventStreamHeaders)) setHeader(name, value);
  return events;
};

/** The logs of a project (contract, sections 12 and 13). */
export const logEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/logs',
    area: 'functions',
    summary: 'Search the log of the project, the latest lines first; live with Accept: text/event-stream',
    access: inProject('viewer'),
    params: z.object({ project_id: id }),
    query,
    response: z.object({
      logs: z.array(logLine),
      next: z
        .string()
        .nullable()
        .describe('For `cursor`; null at the end. A search of 2 s ends before it, perhaps with no line.'),
    }),
    handle: async ({ query: given }, call) => {
      const wanted = wantedOf(given);
      if (call.wantsEvents) return follow(given, call, wanted);
      if (wanted !== 'function') return otherLines(given, call, wanted);
      const filter = await filterOf(given, call);
      const { cursor, limit } = given;
      const { logs, next } = await searchLogs(call.db, call.project.id, { ...filter, cursor, limit });
      return { logs: logs.map((found) => ({ ...shownWith(found), ...found, fields: found.fields ?? null })), next };
    },
  }),
];
