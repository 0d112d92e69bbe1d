import type { SchemaCache } from '#domain/data-api/schema/cache-types.ts';
import type { FenceDb } from '#domain/database/console/fence.ts';
import type { AiCaller, Gateway } from '../gateway/types.ts';
import { readPolicies, schemaContext } from '../schema-context.ts';
import { checkRlsSql, checkSchemaSql, checkSelectSql } from '../sql-guard/check.ts';
import { splitStatements } from '../sql-guard/split.ts';
import type { Reason, Verdict } from '../sql-guard/verdict.ts';
import { askForSql } from './ask.ts';
import type { GeneratedAnswer, GeneratorName } from './shapes.ts';

export interface GenerateDeps {
  readonly gateway: Pick<Gateway, 'chat' | 'models' | 'resolve'>;
  readonly schemas: Pick<SchemaCache, 'get'>;
  readonly tenantDb: FenceDb;
}

export interface GenerateRequest {
  readonly prompt: string;
  readonly model?: string | undefined;
}

/** The guard's verdict on a text, before anybody applies it. */
export interface Judged {
  readonly sql: string;
  readonly allowed: boolean;
  /** Empty where it is allowed. */
  readonly reasons: readonly Reason[];
}

/** Characters of the description of the schema: about 10,000 tokens. */
const maxContext = 40_000;

const judged = (sql: string, check: (sql: string) => Verdict): Judged => {
  const verdict = check(sql);
  return { sql, allowed: verdict.allowed, reasons: verdict.allowed ? [] : verdict.reasons };
};

const answerFor = async <Name extends GeneratorName>(
  { gateway, schemas, tenantDb }: GenerateDeps,
  caller: AiCaller,
  name: Name,
  { prompt, model }: GenerateRequest,
): Promise<GeneratedAnswer<Name>> => {
  const { id } = caller.project;
  const [schema, policies] = await Promise.all([schemas.get(id), readPolicies(tenantDb, id)]);
  const schemaText = schemaContext(schema, { maxChars: maxContext, policies, about: prompt });
  return askForSql(gateway, caller, { name, prompt, schemaText, model });
};

/** The text as a whole, and, as they are applied one by one, each statement of it. */
const judgedEach = (sql: string, check: (sql: string) => Verdict) => ({
  ...judged(sql, check),
  statements: splitStatements(sql).map((statement) => judged(statement, check)),
});

/** @throws as `askForSql` */
export const generateSchema = async (deps: GenerateDeps, caller: AiCaller, request: GenerateRequest) => {
  const answer = await answerFor(deps, caller, 'schema', request);
  return { ...answer, ...judgedEach(answer.sql, checkSchemaSql) };
};

/** @throws as `askForSql` */
export const generateRls = async (deps: GenerateDeps, caller: AiCaller, request: GenerateRequest) => {
  const answer = await answerFor(deps, caller, 'rls', request);
  return { ...answer, ...judgedEach(answer.sql, checkRlsSql) };
};

/** @throws as `askForSql` */
export const generateSelect = async (deps: GenerateDeps, caller: AiCaller, request: GenerateRequest) => {
  const answer = await answerFor(deps, caller, 'sql', request);
  return { ...answer, ...judged(answer.sql, checkSelectSql) };
};
