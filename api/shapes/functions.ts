import { retryPolicy } from '#queues/retry-policy.ts';
import { z } from 'zod';
import { maskEnvVars, openEnvVars } from '#domain/functions/functions.ts';
import type { InvocationRow } from '#domain/functions/invocations.ts';
import { type ListedFunction, functionAccess } from '#domain/functions/store.ts';
import { functionInvoke, runStatuses } from '#queues/function-invoke.ts';
import type { InProject } from '#api/access.ts';
import type { Call } from '#api/call.ts';
import { id, instant } from '#api/fields.ts';

/** Functions and their runs as their project sees them (contract, section 4). */

export const functionPath = z.object({ project_id: id, id });

export const versionNumber = z
  .string()
  .regex(/^[1-9]\d{0,8}$/, { error: 'must be the number of a version' })
  .transform(Number);

export const listedFunction = z.object({
  id,
  slug: z.string(),
  name: z.string(),
  language: z.enum(['javascript', 'python']),
  access: z.enum(functionAccess).describe('Which callers it takes at its public address.'),
  retry: retryPolicy.nullable().describe('For its jobs that bring none of their own; null: they run once.'),
  entry_point: z.string(),
  timeout_ms: z.int(),
  memory_mb: z.int(),
  env_vars: z.record(z.string(), z.string()).describe('Values are masked.'),
  version: z.int(),
  created_at: instant,
  updated_at: instant,
});

export const detailedFunction = listedFunction.extend({ code: z.string() });

export const shownFunction = <Row extends ListedFunction>(
  row: Row,
  { deps, project }: Call<InProject>,
): Row & { env_vars: Record<string, string> } => ({
  ...row,
  env_vars: maskEnvVars(openEnvVars(deps.projects.sealer(project), row.id, row.env_sealed)),
});

export const runStatus = z.enum(runStatuses);
export const runTrigger = functionInvoke.data.shape.trigger;

const runError = z.object({ name: z.string(), message: z.string(), stack: z.string() });
const logLine = z.object({ ts: z.string(), level: z.string(), message: z.string() });

export const invocation = z.object({
  id,
  function_id: id,
  version: z.int(),
  trigger: runTrigger,
  status: z.enum([...runStatuses, 'queued', 'running']).describe('queued or running while the run has not ended.'),
  duration_ms: z.number().nullable(),
  cpu_ms: z.number().nullable(),
  memory_peak_mb: z.number().nullable(),
  started_at: instant.nullable(),
  error: runError.nullable(),
  logs: z.array(logLine),
  logs_truncated: z.boolean().describe('There were more lines than these.'),
});

export type ShownInvocation = z.output<typeof invocation>;

export const shownInvocation = (row: InvocationRow): ShownInvocation => ({
  ...row,
  error: row.error === null ? null : (JSON.parse(row.error) as z.output<typeof runError>),
  logs: row.logs === null ? [] : (JSON.parse(row.logs) as z.output<typeof logLine>[]),
});
