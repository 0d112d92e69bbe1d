import { z } from 'zod';
import { invalidField } from '#domain/cron/expression.ts';
import { misfireRules, overlapRules } from '#domain/cron/fires.ts';
import { type RunRow, listRuns } from '#domain/cron/runs.ts';
import {
  type Schedule,
  createSchedule,
  getSchedule,
  removeSchedule,
  runNow,
  schedulesOf,
  updateSchedule,
} from '#domain/cron/cron.ts';
import { monthlyCaps } from '#domain/functions/functions.ts';
import { TooManyValues, parseExactJson } from '#lib/json.ts';
import { JsonText } from '#lib/json-text.ts';
import { retryPolicy } from '#queues/retry-policy.ts';
import { inProject } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, instant, name, namedObject, page, text } from '../fields.ts';

const area = 'cron';

const maxTextBytes = 64 * 1024;
/** In a body: more than a payload of that size can have, and those of the other fields. */
const maxBodyValues = maxTextBytes / 2 + 1000;

const httpUrl = text(2048, 1).refine(
  (value) => {
    if (!URL.canParse(value)) return false;
    const { protocol, username, password } = new URL(value);
    return /^https?:$/.test(protocol) && username === '' && password === '';
  },
  { error: 'must be an http or https URL without a user name' },
);

const target = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('function'), function_id: id }),
  z.strictObject({ type: z.literal('http'), url: httpUrl }),
  z.strictObject({ type: z.literal('sql'), sql: text(maxTextBytes, 1) }),
]);

const payload = z
  .unknown()
  .describe('Any JSON, at most 64 KB: what the function is called with, or the body of the HTTP call.');

const fields = {
  name,
  schedule: text(200, 1).describe('Five fields, six with the second first, or @daily and the like.'),
  timezone: text(100, 1).describe('A name of the IANA database.'),
  target,
  enabled: z.boolean(),
  overlap: z.enum(overlapRules),
  misfire: z.enum(misfireRules),
  timeout_ms: z
    .int()
    .min(100)
    .max(300_000)
    .nullable()
    .describe('Null: that of the target, which it does not exceed for HTTP and SQL.'),
  retry: retryPolicy.nullable().describe('Null: as the function has it; HTTP and SQL are not tried again.'),
  jitter_ms: z.int().min(0).max(3_600_000).describe('Each fire is late by a random part of it.'),
  deadline_ms: z
    .int()
    .min(1000)
    .max(7 * 24 * 3_600_000)
    .nullable()
    .describe('A run that has not succeeded so long after its fire is the event cron.missed; null: none.'),
};

const run = namedObject('CronRun', {
  id,
  fire_at: instant,
  trigger: z.enum(['schedule', 'manual']),
  job_id: id.nullable(),
  status: z.enum(['waiting', 'queued', 'running', 'succeeded', 'failed', 'cancelled', 'expired', 'dead', 'skipped']),
  reason: z.string().nullable().describe('Why it was skipped, or failed without a job.'),
  started_at: instant.nullable(),
  finished_at: instant.nullable(),
  duration_ms: z.number().nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});

const schedule = namedObject('Schedule', {
  id,
  ...fields,
  payload: z.unknown(),
  next_run_at: instant.nullable(),
  last_run: run.nullable(),
  created_at: instant,
  updated_at: instant,
});

const shownRun = (row: RunRow): z.output<typeof run> => ({
  ...row,
  duration_ms: row.started_at && row.finished_at ? row.finished_at.getTime() - row.started_at.getTime() : null,
  error: row.error_code === null ? null : { code: row.error_code, message: row.error_message ?? '' },
});

const shown = (row: Schedule): z.output<typeof schedule> => ({
  ...row,
  payload: new JsonText(row.payload),
  last_run: row.last_run && shownRun(row.last_run),
});

const payloadTooLarge = () => invalidField('payload', `must be at most ${maxTextBytes} bytes of JSON`);

const exactPayload = (bodyText: string): unknown => {
  try {
    return (parseExactJson(bodyText, maxBodyValues) as { payload?: unknown }).payload ?? null;
  } catch (error) {
    throw error instanceof TooManyValues ? payloadTooLarge() : error;
  }
};

/**
 * The payload out of the body as it came, so that numbers that JavaScript cannot hold are kept. Measured as it is kept:
 * as a value, a number of a million digits is short.
 * @throws {ServiceError} `validation_failed`
 */
const payloadText = (bodyText: string): string => {
  const exact = JSON.stringify(exactPayload(bodyText));
  if (Buffer.byteLength(exact) <= maxTextBytes) return exact;
  throw payloadTooLarge();
};

const projectPath = z.object({ project_id: id });
const schedulePath = z.object({ project_id: id, cid: id });

const readEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/cron',
    area,
    summary: 'The project’s schedules',
    access: inProject('viewer'),
    params: projectPath,
    query: page,
    response: z.object({ schedules: z.array(schedule), total: z.int() }),
    handle: async ({ query }, { db, project }) => {
      const { schedules, total } = await schedulesOf(db, project.id, query);
      return { schedules: schedules.map(shown), total };
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/cron/{cid}',
    area,
    summary: 'A schedule: when it fires next, and how its last run went',
    access: inProject('viewer'),
    params: schedulePath,
    response: schedule,
    handle: async ({ params }, { db, project }) => shown(await getSchedule(db, project.id, params.cid)),
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/cron/{cid}/runs',
    area,
    summary: 'The runs of a schedule, the latest first; kept 14 days',
    access: inProject('viewer'),
    params: schedulePath,
    query: page,
    response: z.object({ runs: z.array(run), total: z.int() }),
    handle: async ({ params, query }, { db, project }) => {
      const { id: scheduleId } = await getSchedule(db, project.id, params.cid);
      const { runs, total } = await listRuns(db, scheduleId, query);
      return { runs: runs.map(shownRun), total };
    },
  }),
];

const changeEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/cron',
    area,
    summary: 'Run a function, an HTTP call or SQL at set times',
    access: inProject('developer'),
    params: projectPath,
    body: z.strictObject({
      ...fields,
      payload: payload.optional(),
      timezone: fields.timezone.default('UTC'),
      enabled: fields.enabled.default(true),
      overlap: fields.overlap.default('skip'),
      misfire: fields.misfire.default('once'),
      timeout_ms: fields.timeout_ms.default(null),
      retry: fields.retry.default(null),
      jitter_ms: fields.jitter_ms.default(0),
      deadline_ms: fields.deadline_ms.default(null),
    }),
    status: 201,
    response: schedule,
    handle: async ({ body, bodyText }, { db, project }) =>
      shown(await createSchedule(db, project, { ...body, payload: payloadText(bodyText) })),
  }),
  endpoint({
    method: 'patch',
    path: '/projects/{project_id}/cron/{cid}',
    area,
    summary: 'Change a schedule; new times count from now on',
    access: inProject('developer'),
    params: schedulePath,
    body: z.strictObject({ ...z.object(fields).partial().shape, payload: payload.optional() }),
    response: schedule,
    handle: async ({ params, body, bodyText }, { db, project }) => {
      const change = { ...body, payload: 'payload' in body ? payloadText(bodyText) : undefined };
      return shown(await updateSchedule(db, { project, id: params.cid }, change));
    },
  }),
  endpoint({
    method: 'delete',
    path: '/projects/{project_id}/cron/{cid}',
    area,
    summary: 'Delete a schedule and its list of runs; what runs goes on',
    access: inProject('developer'),
    params: schedulePath,
    handle: ({ params }, { db, project }) => removeSchedule(db, project.id, params.cid),
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/cron/{cid}/run',
    area,
    summary: 'Run a schedule now, beside whatever it runs already',
    access: inProject('developer'),
    params: schedulePath,
    status: 202,
    response: run,
    handle: async ({ params }, { db, deps, project, setHeader, afterCommit }) => {
      const started = await runNow(db, { ...deps, caps: monthlyCaps(deps.config) }, project, params.cid);
      const { job, jobId } = started;
      if (job !== null) afterCommit(async () => void (await deps.gate.admit(job, false)));
      setHeader('Location', `/projects/${project.id}/jobs/${jobId}`);
      return shownRun(started.run);
    },
  }),
];

/** Schedules (contract, section 4, "Cron"). */
export const cronEndpoints: readonly Endpoint[] = [...readEndpoints, ...changeEndpoints];
