import { batching, debounceMs, rateLimit } from '#queues/flow-control.ts';
import { retryPolicy } from '#queues/retry-policy.ts';
import { z } from 'zod';
import { listEnvVars, maskEnvVars, maxVars, openEnvVars } from '#domain/functions/env-vars.ts';
import type { InvocationRow } from '#domain/functions/invocations.ts';
import { type ListedFunction, functionAccess } from '#domain/functions/store.ts';
import { functionInvoke, runStatuses } from '#queues/function-invoke.ts';
import type { InProject } from '#api/access.ts';
import type { Call } from '#api/call.ts';
import { id, instant, namedObject, text } from '#api/fields.ts';

/** Functions and their runs as their project sees them (contract, section 4). */

export const functionPath = z.object({ project_id: id, id });

export const versionNumber = z
  .string()
  .regex(/^[1-9]\d{0,8}$/, { error: 'must be the number of a version' })
  .transform(Number);

const envName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, { error: 'must be a name of letters, digits and _' });
/** In one change: enough to replace all variables, and to delete those of before the bound in a few calls. */
const maxChangedVars = 1000;
// Looked at before the names are checked one by one. A record would drop the name __proto__ without a word.
const checkNames = (value: unknown, context: z.core.$RefinementCtx): unknown => {
  if (typeof value !== 'object' || value === null) return value;
  if (Object.hasOwn(value, '__proto__'))
    context.addIssue({ code: 'custom', path: ['__proto__'], message: 'is not possible as a name' });
  if (Object.keys(value).length > maxChangedVars)
    context.addIssue({ code: 'custom', message: `must have at most ${maxChangedVars} names at a time` });
  return value;
};
/** Changes of variables: null deletes one. */
export const envVars = z.preprocess(checkNames, z.record(envName, text(32_768).nullable()));

const shownVars = z.record(z.string(), z.string());

export const listedFunction = namedObject('ListedFunction', {
  id,
  slug: z.string(),
  name: z.string(),
  language: z.enum(['javascript', 'python']),
  access: z.enum(functionAccess).describe('Which callers it takes at its public address.'),
  retry: retryPolicy.nullable().describe('For its jobs that bring none of their own; null: they run once.'),
  rate: rateLimit.nullable().describe('How often its jobs start; null: as soon as there is room.'),
  debounce_ms: debounceMs
    .nullable()
    .describe('A job runs when so long none came with its unique_key, with the last payload; null: it does not wait.'),
  batch: batching.nullable().describe('One run gets an array of the payloads of several jobs; null: each has its own.'),
  on_failure_function_id: id.nullable().describe('The function that runs when a job has failed for good.'),
  entry_point: z.string(),
  entrypoint: z.string().nullable().describe('Path of the file with the handler; null for a function of one file.'),
  timeout_ms: z.int(),
  memory_mb: z.int(),
  env_vars: shownVars.describe(`Values are masked. In a list the first ${maxVars}.`),
  version: z.int(),
  created_at: instant,
  updated_at: instant,
});

export const detailedFunction = namedObject('FunctionWithCode', {
  ...listedFunction.shape,
  env_vars: shownVars.describe('Values are masked.'),
  code: z.string().describe('Empty for a function of several files.'),
});

export const withWarmStart = z.object({
  ...detailedFunction.shape,
  warm_start: z
    .object({
      snapshot: z.boolean().describe('Runs begin with a copy of the evaluated module.'),
      reason: z.string().nullable().describe('Why not.'),
    })
    .nullable()
    .describe('Null for modules below 64 KB and in Python, and as long as no worker has tried the version.'),
});

export const filesShown = z.record(z.string(), z.string()).nullable();

export const functionWithFiles = namedObject('Function', {
  ...withWarmStart.shape,
  files: filesShown.describe('The text of each file by its path; null for a function of one file.'),
});

/** The answer as JSON text, around files that are JSON text already and may have 10 MB. */
export const withFiles = <Shape extends z.ZodType>(shape: Shape, value: z.output<Shape>, files: string | null) =>
  `${JSON.stringify(z.encode(shape, value)).slice(0, -1)},"files":${files ?? 'null'}}`;

export const shownFunction = <Row extends ListedFunction>(
  row: Row,
  { deps, project }: Call<InProject>,
): Row & { env_vars: Record<string, string> } => ({
  ...row,
  env_vars: maskEnvVars(openEnvVars(deps.projects.sealer(project), row.id, row.env_sealed)),
});

export const shownInList = (
  row: ListedFunction,
  { deps, project }: Call<InProject>,
): z.output<typeof listedFunction> => ({
  ...row,
  env_vars: listEnvVars(deps.projects.sealer(project), row.id, row.env_sealed),
});

export const runStatus = z.enum(runStatuses);
export const runTrigger = functionInvoke.data.shape.trigger;

/** The answer of an invocation. */
export const runResult = functionInvoke.result.meta({ id: 'RunResult' });

const runError = namedObject('RunError', { name: z.string(), message: z.string(), stack: z.string() });
const logLine = namedObject('RunLogLine', {
  ts: z.string(),
  level: z.string(),
  message: z.string(),
  fields: z.record(z.string(), z.unknown()).optional().describe('Those of `sdk.log`.'),
});

/** In milliseconds. */
const timings = namedObject('RunTimings', {
  queue: z.number().describe('From when it was queued until its row said that it runs.'),
  start: z.number().describe('From then until a sandbox had it.'),
  db: z.number().describe('While at least one call of the database was under way.'),
  fetch: z.number().describe('While at least one request was under way.'),
  cpu: z.number(),
});

export const invocation = namedObject('Invocation', {
  id,
  function_id: id,
  version: z.int().describe('Below zero: a draft, which was not deployed.'),
  trigger: runTrigger,
  status: z
    .enum([...runStatuses, 'queued', 'running', 'waiting'])
    .describe('queued, running or waiting while the run has not ended.'),
  duration_ms: z.number().nullable(),
  cpu_ms: z.number().nullable(),
  memory_peak_mb: z.number().nullable(),
  timings: timings.nullable().describe('Where the time went. Null while it runs, and where its worker died.'),
  started_at: instant.nullable(),
  error: runError.nullable(),
  logs: z.array(logLine),
  logs_truncated: z.boolean().describe('There were more lines than these.'),
});

export type ShownInvocation = z.output<typeof invocation>;

const timingsOf = ({ queue_ms, start_ms, database_ms, fetch_ms, cpu_ms }: InvocationRow): ShownInvocation['timings'] =>
  queue_ms === null || start_ms === null || database_ms === null || fetch_ms === null || cpu_ms === null
    ? null
    : { queue: queue_ms, start: start_ms, db: database_ms, fetch: fetch_ms, cpu: cpu_ms };

export const shownInvocation = (row: InvocationRow): ShownInvocation => ({
  ...row,
  timings: timingsOf(row),
  error: row.error === null ? null : (JSON.parse(row.error) as z.output<typeof runError>),
  logs: row.logs === null ? [] : (JSON.parse(row.logs) as z.output<typeof logLine>[]),
});
