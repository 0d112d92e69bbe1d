import { z } from 'zod';
import type { SchemaCache } from '#domain/data-api/schema/cache-types.ts';
import type { FenceDb } from '#domain/database/console/fence.ts';
import { ServiceError } from '#lib/errors.ts';
import type { ChatMessage, ResponseFormat } from './chat.ts';
import { defaultChatModel } from './gateway/models.ts';
import type { AiCaller, Gateway } from './gateway/types.ts';
import type { ProviderName } from './providers/providers.ts';
import {
  type GeneratedAnswer,
  type GeneratorName,
  answerShapes,
  repairPrompt,
  systemPrompt,
} from './generator-prompts.ts';
import { readPolicies, schemaContext } from './schema-context.ts';
import { checkRlsSql, checkSchemaSql, checkSelectSql } from './sql-guard/check.ts';
import { splitStatements } from './sql-guard/parse.ts';
import type { Reason, Verdict } from './sql-guard/verdict.ts';

interface Question {
  readonly name: GeneratorName;
  readonly prompt: string;
  readonly schemaText: string;
  /** Left out: the default of the project's first provider. */
  readonly model?: string | undefined;
}

/** These take JSON Schema for some of their models only; a schema that is not taken would be an error. */
const plainJsonOnly: ReadonlySet<ProviderName> = new Set(['groq', 'deepseek']);

const shapeOf = (name: GeneratorName): Record<string, unknown> => {
  // Bounds are ours to check: not each provider knows them.
  const { $schema: _, ...shape } = z.toJSONSchema(answerShapes[name], {
    override: ({ jsonSchema }) => {
      delete jsonSchema.minLength;
      delete jsonSchema.maxLength;
    },
  });
  return { ...shape, additionalProperties: false };
};

const formatFor = (provider: ProviderName, name: GeneratorName): ResponseFormat =>
  plainJsonOnly.has(provider)
    ? { type: 'json_object' }
    : { type: 'json_schema', json_schema: { name: `${name}_answer`, schema: shapeOf(name), strict: true } };

/** In characters; a whole schema of tables has some 20,000. */
const maxAnswerLength = 262_144;

const parsed = (text: string): readonly unknown[] => {
  if (text.length > maxAnswerLength) return [];
  try {
    return [JSON.parse(text)];
  } catch {
    return [];
  }
};

/**
 * Returns the JSON in a text: the whole, or else, as some models write around it, code blocks and the outermost braces.
 */
const jsonIn = (text: string): readonly unknown[] => {
  const whole = parsed(text);
  if (whole.length > 0) return whole;
  const blocks = text.split('```').filter((_, number) => number % 2 === 1);
  const braces = text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1);
  return [...blocks.map((block) => block.replace(/^\w+/, '')), braces].flatMap(parsed);
};

type Read<Name extends GeneratorName> =
  | { readonly ok: true; readonly answer: GeneratedAnswer<Name> }
  | { readonly ok: false; readonly problems: readonly string[] };

/** Parses a model's text. Fields that were not requested are left out. */
const readAnswer = <Name extends GeneratorName>(name: Name, text: string): Read<Name> => {
  const reads = jsonIn(text).map((value) => answerShapes[name].safeParse(value));
  const read = reads.find(({ success }) => success) ?? reads[0];
  if (read === undefined) return { ok: false, problems: ['the answer is not JSON'] };
  if (!read.success) {
    return { ok: false, problems: read.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) };
  }
  return { ok: true, answer: read.data as GeneratedAnswer<Name> };
};

const unusable = (problems: readonly string[]): ServiceError =>
  new ServiceError('provider_bad_output', 'The model gave no usable answer, also when it was asked again.', {
    details: { problems },
    hint: 'Put it in other words, or name another model.',
  });

/**
 * Asks a model for SQL. An answer that does not fit is given back to it once, with what is wrong.
 * @throws {ServiceError} `provider_bad_output`, `provider_not_configured`, and what the gateway throws
 */
const askForSql = async <Name extends GeneratorName>(
  gateway: Pick<Gateway, 'chat' | 'models' | 'resolve'>,
  caller: AiCaller,
  { name, prompt, schemaText, model: wished }: Question & { readonly name: Name },
): Promise<GeneratedAnswer<Name>> => {
  const model = wished ?? (await defaultChatModel(gateway, caller.project));
  const { provider } = await gateway.resolve(caller.project, model, 'chat');
  const response_format = formatFor(provider, name);
  const askModel = async (messages: readonly ChatMessage[]): Promise<string> =>
    (await gateway.chat(caller, { model, messages, response_format })).answer.content;

  const messages: readonly ChatMessage[] = [
    { role: 'system', content: systemPrompt(name, schemaText, shapeOf(name)) },
    { role: 'user', content: prompt },
  ];
  const text = await askModel(messages);
  const first = readAnswer(name, text);
  if (first.ok) return first.answer;
  const repair: readonly ChatMessage[] = [
    // Some providers refuse an empty turn.
    { role: 'assistant', content: text.trim() === '' ? '(nothing)' : text },
    { role: 'user', content: repairPrompt(first.problems) },
  ];
  const second = readAnswer(name, await askModel([...messages, ...repair]));
  if (!second.ok) throw unusable(second.problems);
  return second.answer;
};

export interface GenerateDeps {
  readonly gateway: Pick<Gateway, 'chat' | 'models' | 'resolve'>;
  readonly schemas: Pick<SchemaCache, 'get'>;
  readonly tenantDb: FenceDb;
}

interface GenerateRequest {
  readonly prompt: string;
  readonly model?: string | undefined;
}

/** The guard's verdict on a text, before anybody applies it. */
interface Judged {
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
