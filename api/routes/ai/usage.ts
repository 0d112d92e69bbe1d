import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { deleteBudget, getBudget, setBudget } from '#domain/ai/usage/budget.ts';
import { nextMonth } from '#domain/ai/usage/call-log.ts';
import { getCall, listCalls } from '#domain/ai/usage/calls.ts';
import { maxGroups, usageGroups, usageReport } from '#domain/ai/usage/report.ts';
import { callKinds, callStatuses } from '#domain/ai/usage/usage.ts';
import { type InProject, inProject } from '../../access.ts';
import type { BaseCall, Call } from '../../call.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, instant, namedObject, text, wholeNumber } from '../../fields.ts';

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
const resetsAt = instant.describe('When the next month (UTC) begins, and the budget with it');

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
  status: z.enum(['open', ...callStatuses]).describe('open: it is under way'),
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
  error_message: z.string().nullable().describe('What went wrong, without the provider’s key'),
  retries: z.int().describe('How often the provider was asked again'),
  api_key_id: id.nullable().describe('The project’s API key; null: a member asked, or a job'),
  request_id: z.string(),
});

/** Waits until the calls that this process has just made are recorded, so that they are part of the answer. */
const settled = ({ deps }: Pick<BaseCall, 'deps'>): Promise<unknown> =>
  Promise.race([deps.ai.calls.settled(), pause(maxSettleMs, undefined, { ref: false })]);

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
  handle: async ({ query }, call) => {
    await settled(call);
    const report = await usageReport(call.db, call.project.id, query.days);
    return { ...report, by_day: [...report.by_day], recent_logs: [...report.recent_logs] };
  },
});

const modelFilter = {
  provider: text(100, 1).optional(),
  model: text(300, 1).optional().describe('The provider’s own id of it'),
  api_key_id: z
    .union([z.literal('none'), id])
    .optional()
    .describe('The API key that the calls were made with; none: those without one'),
};

const keyOf = (given: string | undefined): string | null | undefined => (given === 'none' ? null : given);

const group = namedObject('AiUsageGroup', {
  day: z.string(),
  provider: z.string(),
  model: z.string(),
  api_key_id: id.nullable().describe('Null: made without a key, or before keys were recorded'),
  requests: z.int(),
  failed: z.int().describe('Of these, the ones that did not end well'),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  cost_nano_usd: z.int(),
});

const groupsEndpoint = endpoint({
  method: 'get',
  path: `${path}/groups`,
  area,
  summary: 'The calls of the last days (UTC) added up by day, model and API key, the latest day first',
  access: inProject('viewer'),
  params: projectPath,
  query: z.object({ days: wholeNumber(30, 1, 365), ...modelFilter }),
  response: z.object({
    groups: z.array(group),
    is_cut: z.boolean().describe(`There are more than ${maxGroups}: ask for fewer days, or for one model or key.`),
  }),
  handle: async ({ query: { days, provider, model, api_key_id: key } }, call) => {
    await settled(call);
    const { groups, isCut } = await usageGroups(call.db, call.project.id, {
      days,
      provider,
      model,
      apiKeyId: keyOf(key),
    });
    return { groups, is_cut: isCut };
  },
});

const callsPath = '/projects/{project_id}/ai/calls';

const callEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: callsPath,
    area,
    summary: 'Calls of models, the latest first, with those that are under way; they are kept for 90 days',
    access: inProject('viewer'),
    params: projectPath,
    query: z.object({
      ...modelFilter,
      kind: z.enum(callKinds).optional(),
      status: loggedCall.shape.status.optional(),
      day: z.iso.date().optional().describe('UTC'),
      request_id: text(64, 1).optional(),
      cursor: id.optional().describe('`next` of the page before'),
      limit: wholeNumber(50, 1, 200),
    }),
    response: z.object({
      calls: z.array(loggedCall),
      next: id
        .nullable()
        .describe('For `cursor`; null at the end. A page examines 20,000 calls, and may hold none of them'),
    }),
    handle: async ({ query: { api_key_id: key, request_id: requestId, cursor, ...rest } }, call) => {
      await settled(call);
      return listCalls(call.db, call.project.id, { ...rest, apiKeyId: keyOf(key), requestId, before: cursor });
    },
  }),
  endpoint({
    method: 'get',
    path: `${callsPath}/{call_id}`,
    area,
    summary: 'A call of a model. What was asked and answered is not kept',
    access: inProject('viewer'),
    params: z.object({ project_id: id, call_id: id }),
    response: loggedCall,
    handle: async ({ params }, call) => {
      await settled(call);
      return getCall(call.db, call.project.id, params.call_id);
    },
  }),
];

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
      resets_at: resetsAt,
    }),
    handle: async (_input, { db, project }) => ({
      ...((await getBudget(db, project.id)) ?? noBudget),
      resets_at: nextMonth().resets,
    }),
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

export const aiUsageEndpoints: readonly Endpoint[] = [
  usageEndpoint,
  groupsEndpoint,
  ...callEndpoints,
  ...budgetEndpoints,
];
