import { z } from 'zod';
import { type GenerateDeps, generateRls, generateSchema, generateSelect } from '#domain/ai/generators.ts';
import { type ApplyRequest, applyGeneratedSql, runGeneratedSelect } from '#domain/ai/sql-guard/run.ts';
import { checkRlsSql, checkSchemaSql } from '#domain/ai/sql-guard/sql-guard.ts';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
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

interface ApplyInput extends Pick<ApplyRequest, 'check'> {
  readonly body: z.output<typeof applyBody>;
  readonly key: Parameters<typeof inTurn>[1];
}

const applyOnce = (call: MemberCall, { body: { sql, approved }, key, check }: ApplyInput) => {
  const { deps, project, signal } = call;
  return inTurn(call, key, (once) => {
    const request = { projectId: project.id, sql, approved: approved === true, once, check };
    return applyGeneratedSql({ ...deps, tenantDb: deps.projects.tenantDb }, request, signal);
  });
};

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
      const { objects, ...done } = await applyOnce(call, { body, key, check: checkSchemaSql });
      return { ...done, tables: objects.tables };
    },
  }),
  endpoint({
    ...common,
    path: '/projects/{project_id}/ai/rls/apply',
    summary: 'Apply one CREATE or ALTER POLICY, or ENABLE ROW LEVEL SECURITY, that somebody has approved of',
    body: applyBody,
    response: appliedRls,
    handle: async ({ body, key }, call) => {
      const { objects, ...done } = await applyOnce(call, { body, key, check: checkRlsSql });
      return { ...done, policies: objects.policies };
    },
  }),
];

/** SQL that models write, and what becomes of it (interface, "AI database tool payloads"; contract, section 8). */
export const generateEndpoints: readonly Endpoint[] = [...generatorEndpoints, ...applyEndpoints];
