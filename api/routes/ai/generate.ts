import { z } from 'zod';
import { type GenerateDeps, generateRls, generateSchema, generateSelect } from '#domain/ai/generators.ts';
import {
  type ApplyDeps,
  type ApplyRequest,
  applyRlsSql,
  applySchemaSql,
  runGeneratedSelect,
} from '#domain/ai/sql-guard/run.ts';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
import type { Once } from '#domain/database/console/owner-key.ts';
import { ServiceError } from '#lib/errors.ts';
import { type InProject, inProject } from '../../access.ts';
import { aiCallerOf } from '../../ai/call.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, RawReply, endpoint } from '../../endpoint.ts';
import { id } from '../../fields.ts';
import {
  appliedRls,
  appliedSchema,
  applyBody,
  generateBody,
  generatedRls,
  generatedSchema,
  generatedSql,
} from '../../ai/shapes.ts';
import { inTurn } from '../../idempotency.ts';

const common = {
  method: 'post',
  area: 'ai',
  access: inProject('developer'),
  params: z.object({ project_id: id }),
  transaction: 'none',
} as const;

type MemberCall = Call<InProject>;

const generateDeps = ({ deps }: MemberCall): GenerateDeps => ({
  gateway: deps.ai.gateway,
  schemas: deps.schemas,
  tenantDb: deps.projects.tenantDb,
});

const applyDeps = ({ deps }: MemberCall): ApplyDeps => ({ ...deps, tenantDb: deps.projects.tenantDb });

const requestOf = (
  { project }: MemberCall,
  { sql, approved }: z.output<typeof applyBody>,
  once?: Once,
): ApplyRequest => ({
  projectId: project.id,
  sql,
  approved: approved === true,
  once,
});

/** The error details that a caller may see of a query that did not run; the SQL is answered all the same. */
const executionError = (error: unknown): { code: string; message: string; details: unknown; hint: string | null } => {
  if (error instanceof CallerGone) throw error;
  if (!(error instanceof DataError) && !(error instanceof ServiceError)) throw error;
  const { code, message, details, hint } = error;
  return { code, message, details, hint };
};

/** As text: rows keep numbers that JavaScript cannot hold. */
const withResults = async (generated: z.output<typeof generatedSql>, call: MemberCall): Promise<RawReply> => {
  const { tenantDb } = call.deps.projects;
  const query = { projectId: call.project.id, sql: generated.sql };
  try {
    const { text, count, truncated } = await runGeneratedSelect(tenantDb, query, call.signal);
    const rest = { ...generated, row_count: count, truncated };
    return new RawReply(`${JSON.stringify(rest).slice(0, -1)},"results":${text}}`);
  } catch (error) {
    const failed = executionError(error);
    // Only the database knows the objects behind the names: its verdict is the last.
    const verdict = failed.code === 'sql_not_allowed' && { allowed: false, reasons: failed.details };
    return new RawReply(JSON.stringify({ ...generated, ...verdict, execution_error: failed }));
  }
};

const generatorEndpoints: readonly Endpoint[] = [
  endpoint({
    ...common,
    path: '/projects/{project_id}/ai/schema/generate',
    summary: 'Have a model write a change of the schema; nothing is applied',
    rate: 'ai',
    body: generateBody,
    response: generatedSchema,
    handle: async ({ body }, call) =>
      new RawReply(JSON.stringify(await generateSchema(generateDeps(call), aiCallerOf(call, 'generate'), body))),
  }),
  endpoint({
    ...common,
    path: '/projects/{project_id}/ai/rls/generate',
    summary: 'Have a model write policies of row-level security; nothing is applied',
    rate: 'ai',
    body: generateBody,
    response: generatedRls,
    handle: async ({ body }, call) =>
      new RawReply(JSON.stringify(await generateRls(generateDeps(call), aiCallerOf(call, 'generate'), body))),
  }),
  endpoint({
    ...common,
    path: '/projects/{project_id}/ai/sql/generate',
    summary: 'Have a model write a query; with execute its rows come, too',
    rate: 'ai',
    body: generateBody.extend({ execute: z.boolean().default(false) }),
    response: generatedSql,
    handle: async ({ body: { execute, ...request } }, call) => {
      const { reasons, ...rest } = await generateSelect(generateDeps(call), aiCallerOf(call, 'generate'), request);
      const generated = { ...rest, reasons: [...reasons] };
      return execute ? withResults(generated, call) : generated;
    },
  }),
];

const applyEndpoints: readonly Endpoint[] = [
  endpoint({
    ...common,
    path: '/projects/{project_id}/ai/schema/apply',
    summary: 'Apply one CREATE TABLE, CREATE INDEX or ALTER TABLE that somebody has approved of',
    body: applyBody,
    response: appliedSchema,
    handle: async ({ body, key }, call) => {
      const done = await inTurn(call, key, (once) =>
        applySchemaSql(applyDeps(call), requestOf(call, body, once), call.signal),
      );
      return { ...done, tables: [...done.tables] };
    },
  }),
  endpoint({
    ...common,
    path: '/projects/{project_id}/ai/rls/apply',
    summary: 'Apply one CREATE or ALTER POLICY, or ENABLE ROW LEVEL SECURITY, that somebody has approved of',
    body: applyBody,
    response: appliedRls,
    handle: async ({ body, key }, call) => {
      const done = await inTurn(call, key, (once) =>
        applyRlsSql(applyDeps(call), requestOf(call, body, once), call.signal),
      );
      return { ...done, policies: [...done.policies] };
    },
  }),
];

/** SQL that models write, and what becomes of it (interface, "AI database tool payloads"; contract, section 8). */
export const generateEndpoints: readonly Endpoint[] = [...generatorEndpoints, ...applyEndpoints];
