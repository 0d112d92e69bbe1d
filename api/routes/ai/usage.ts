import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { deleteBudget, getBudget, setBudget } from '#domain/ai/usage/budget.ts';
import { callKinds, callStatuses } from '#domain/ai/usage/usage.ts';
import { usageReport } from '#domain/ai/usage/report.ts';
import { type InProject, inProject } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, instant, namedObject, wholeNumber } from '../../fields.ts';

const area = 'ai';
const projectPath = z.object({ project_id: id });
const path = '/projects/{project_id}/ai/usage';
const budgetPath = '/projects/{project_id}/ai/budget';
/** For what this process has just recorded; while Postgres is slow the report goes without it. */
const maxSettleMs = 1000;

const budgetFields = {
  monthly_usd: z.number().min(0).max(1_000_000).describe('For a calendar month (UTC)'),
  hard: z
    .boolean()
    .describe('True: a call that may not fit is refused with 429 `budget_exceeded`. False: it is only reported.'),
};
const shownBudget = namedObject('AiBudget', {
  ...budgetFields,
  used_usd: z.number().describe('What calls of models with a known price have cost this month'),
});

const noBudget = { monthly_usd: null, hard: false, used_usd: null };

const promptDetails = z
  .object({ cached_tokens: z.int(), cache_write_tokens: z.int() })
  .describe('Of the prompt: read from the provider’s cache, and written to it');
const completionDetails = z.object({ reasoning_tokens: z.int() }).describe('Of the answer: thoughts');
const details = { prompt_tokens_details: promptDetails, completion_tokens_details: completionDetails };

const sum = { requests: z.int(), tokens: z.int(), cost_nano_usd: z.int(), ...details };
const count = z.int().nullable();
const loggedCall = namedObject('AiCall', {
  id,
  created_at: instant,
  kind: z.enum(callKinds),
  provider: z.string(),
  model: z.string(),
  status: z.enum(callStatuses),
  prompt_tokens: count,
  completion_tokens: count,
  prompt_tokens_details: promptDetails.nullable(),
  completion_tokens_details: completionDetails.nullable(),
  service_tier: z.string().nullable().describe('As the provider named it; null: it did not'),
  tokens_source: z.enum(['reported', 'estimated']).nullable(),
  cost_nano_usd: count.describe('Billionths of a US dollar; null: the price of the model is not known'),
  latency_ms: count,
  ttft_ms: count,
  error_code: z.string().nullable(),
  request_id: z.string(),
});

const usageEndpoint = endpoint({
  method: 'get',
  path,
  area,
  summary: 'What was asked of models: calls, tokens and cost of the last days (UTC), and the last 50 calls',
  access: inProject('viewer'),
  params: projectPath,
  query: z.object({ days: wholeNumber(30, 1, 365) }),
  response: z.object({
    total_requests: z.int(),
    total_tokens: z.object({ prompt: z.int(), completion: z.int() }),
    total_cost_nano_usd: z.int(),
    ...details,
    by_provider: z.record(z.string(), z.object(sum)),
    by_day: z.array(z.object({ day: z.string(), ...sum })),
    recent_logs: z.array(loggedCall),
  }),
  handle: async ({ query }, { deps, db, project }) => {
    await Promise.race([deps.ai.calls.settled(), pause(maxSettleMs, undefined, { ref: false })]);
    const report = await usageReport(db, project.id, query.days);
    return { ...report, by_day: [...report.by_day], recent_logs: [...report.recent_logs] };
  },
});

/** Calls go by what is kept of a project for some seconds: whether a budget may refuse them is part of that. */
const noteChange = ({ afterCommit, deps, project }: Call<InProject>): void =>
  afterCommit(() => deps.projectChanged(project.id));

const budgetEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'put',
    path: budgetPath,
    area,
    summary: 'Set what the project may spend on models in a month',
    access: inProject('admin'),
    params: projectPath,
    body: z.strictObject(budgetFields),
    response: shownBudget,
    handle: ({ body }, call) => {
      noteChange(call);
      return setBudget(call.db, call.project.id, body);
    },
  }),
  endpoint({
    method: 'get',
    path: budgetPath,
    area,
    summary: 'The budget for models, and how much of it is used this month',
    access: inProject('viewer'),
    params: projectPath,
    response: z.object({
      monthly_usd: shownBudget.shape.monthly_usd.nullable().describe('Null: there is no budget'),
      hard: z.boolean(),
      used_usd: shownBudget.shape.used_usd.nullable(),
    }),
    handle: async (_input, { db, project }) => (await getBudget(db, project.id)) ?? noBudget,
  }),
  endpoint({
    method: 'delete',
    path: budgetPath,
    area,
    summary: 'Remove the budget for models',
    access: inProject('admin'),
    params: projectPath,
    handle: (_input, call) => {
      noteChange(call);
      return deleteBudget(call.db, call.project.id);
    },
  }),
];

export const aiUsageEndpoints: readonly Endpoint[] = [usageEndpoint, ...budgetEndpoints];
