import { GraphQLError, type GraphQLSchema, getVariableValues } from 'graphql';
import { type AnswerBody, jsonObject, maxAnswerLength } from '../answer-body.ts';
import type { DataCaller, DataDb, RunOne, RunRows } from '../data-api.ts';
import { DataError, mayBeStale, toDataError } from '../errors.ts';
import type { SchemaCache } from '../schema/schema.ts';
import { type Graph, createGraphs } from './schema.ts';
import { type DataKey, once } from '../idempotency.ts';
import { bodiesOf } from '../sql/sql.ts';
import { chooseOperation, normalizeVariables, validationOptions, withCodes } from './document.ts';
import { failure, visibleTables } from './model.ts';
import { bound, type Fields } from './inputs.ts';
import { type CompiledQuery, type MutationPart, type Operation, mutationParts } from './operation.ts';
import type { Disconnection } from '#lib/disconnection.ts';

export interface GraphqlRequest {
  readonly caller: DataCaller;
  readonly query: string;
  /** Numbers as they were written (`parseExactJson`). */
  readonly variables: Fields;
  readonly operationName: string | null;
  /** GET changes nothing. */
  readonly readOnly: boolean;
  readonly signal: Disconnection;
  /** A mutation is made once for it. */
  readonly key?: DataKey | undefined;
  readonly request?: { readonly method: string; readonly path: string; readonly headers: string };
}

export interface GraphqlAnswer {
  /** JSON text, or its pieces; null: nothing was executed. */
  readonly data: AnswerBody | null;
  readonly errors: readonly GraphQLError[];
  /** Something was written and committed. */
  readonly wrote: boolean;
  /** The answer to an earlier request with the same key. */
  readonly replayed: boolean;
}

/** A mutation was asked for where only queries are answered. */
export class MutationRefused extends Error {}

export interface GraphqlDeps {
  readonly data: DataDb;
  readonly schemas: SchemaCache;
}

const refused = (errors: readonly GraphQLError[]): GraphqlAnswer => ({
  data: null,
  errors,
  wrote: false,
  replayed: false,
});

const failed = (error: DataError, path: readonly string[] | undefined): GraphqlAnswer => {
  const { code, details, hint } = error;
  const extensions = { code, ...(details !== null && { details }), ...(hint !== null && { hint }) };
  const errors = [new GraphQLError(error.message, { extensions, path })];
  return { data: 'null', errors, wrote: false, replayed: false };
};

type Deps = GraphqlDeps;

const answerQuery = async (
  graph: Graph,
  operation: Operation,
  { variables, request }: { readonly variables: Fields; readonly request: GraphqlRequest },
  { data }: Deps,
): Promise<Made> => {
  const { parts, sql, trace }: CompiledQuery = graph.compile(operation, variables);
  const selected = parts.flatMap((part) => (part.kind === 'introspection' ? [part.selected] : []));
  const run = { mode: 'read', signal: request.signal, ...(request.request && { request: request.request }) } as const;
  const visible = selected.length === 0 ? null : await visibleTables(request.caller, run, data);
  const known = selected.length === 0 ? null : graph.introspect(operation, { selected, variables }, visible);
  const statement = sql && { text: sql.text, params: bound(sql.params, trace, variables) };
  const answered = statement ? await data.rows(request.caller, run, statement) : [];
  const columns = bodiesOf(answered).values();
  const fields = parts.map((part): readonly [string, AnswerBody] => {
    if (part.kind === 'text') return [part.key, part.text];
    if (part.kind === 'introspection') return [part.key, known?.get(part.key) ?? 'null'];
    return [part.key, columns.next().value ?? 'null'];
  });
  return made(jsonObject(fields));
};

/** JSON text of the data, and whether it is of an earlier request. */
interface Made {
  readonly data: AnswerBody;
  readonly replayed: boolean;
}

const made = (data: AnswerBody): Made => ({ data, replayed: false });

/** Keeps the data alone: what is around it is as the caller accepts it. */
const answerOnce = async (one: RunOne, key: DataKey, all: () => Promise<AnswerBody>): Promise<Made> => {
  const stored = await once(one, key, async () => ({ status: 200, headers: {}, type: '', body: await all() }));
  return { data: stored.body, replayed: 'Idempotent-Replayed' in stored.headers };
};

/** The place of a failure within a mutation. */
class PartFailed extends Error {
  readonly key: string;

  constructor(key: string, cause: unknown) {
    super('a part of a mutation failed', { cause });
    this.key = key;
  }
}

const runPart = async ({ key, run }: MutationPart, rows: RunRows): Promise<readonly [string, AnswerBody]> => {
  try {
    return [key, await run(rows)];
  } catch (error) {
    throw new PartFailed(key, error);
  }
};

const tooLong = (): DataError =>
  new DataError(400, '54000', 'The fields of the mutation answer too much together; nothing was changed.', {
    hint: 'Ask for fewer rows or columns of what was changed, or for affected_rows only.',
  });

/** Runs statements until their answers, which are held until the transaction ends, are too long together. */
const boundedRows = (rows: RunRows): RunRows => {
  let length = 0;
  return async (sql) => {
    const answered = await rows(sql);
    for (const row of answered) for (const text of row) length += text?.length ?? 0;
    if (length > maxAnswerLength) throw tooLong();
    return answered;
  };
};

const answerMutation = async (
  graph: Graph,
  operation: Operation,
  { variables, request }: { readonly variables: Fields; readonly request: GraphqlRequest },
  { data }: Deps,
): Promise<Made> => {
  const parts = mutationParts(graph.model, operation, variables);
  const run = { mode: 'write', signal: request.signal, ...(request.request && { request: request.request }) } as const;
  const all = async (rows: RunRows): Promise<AnswerBody> => {
    const bounded = boundedRows(rows);
    const fields: (readonly [string, AnswerBody])[] = [];
    for (const part of parts) fields.push(await runPart(part, bounded));
    return jsonObject(fields);
  };
  const [first] = parts;
  const { caller, key } = request;
  if (key !== undefined) return data.transaction(caller, run, (one, rows) => answerOnce(one, key, () => all(rows)));
  // One round trip in place of three.
  const isSingle = parts.length === 1 && first?.isSingle === true;
  if (isSingle) return made(await all((sql) => data.rows(caller, run, sql)));
  return made(await data.transaction(caller, run, (_one, rows) => all(rows)));
};

const coerced = (schemaOf: () => GraphQLSchema, operation: Operation, variables: Fields): Fields => {
  const definitions = operation.node.variableDefinitions ?? [];
  if (definitions.length === 0) return {};
  const schema = schemaOf();
  const given = normalizeVariables(schema, operation.node, variables);
  const { variableValues, errors } = getVariableValues(schema, definitions, given, validationOptions(schema));
  if (errors) throw new AggregateError(withCodes('validation_failed', errors));
  return variableValues.coerced;
};

/** The result of one attempt; `stale` says that the schema may be older than the database's. */
type Attempt = { readonly answer: GraphqlAnswer; readonly stale: boolean };

const answered = (answer: GraphqlAnswer): Attempt => ({ answer, stale: false });

/** A refused key is no failure within the mutation: nothing of it was read. */
const keyRefusals = new Set(['idempotency_mismatch', 'idempotency_keys_full']);

const afterFailure = (error: unknown, { caller }: GraphqlRequest): Attempt => {
  const cause = error instanceof PartFailed ? error.cause : error;
  const path = error instanceof PartFailed ? [error.key] : undefined;
  if (cause instanceof AggregateError) return answered(refused(cause.errors as GraphQLError[]));
  if (cause instanceof GraphQLError) return answered(refused([cause]));
  if (cause instanceof RangeError && /call stack/.test(cause.message))
    return answered(refused([failure('query_too_deep', 'The request is nested too deeply.')]));
  const dataError = toDataError(cause, caller);
  if (dataError instanceof DataError && keyRefusals.has(dataError.code)) throw dataError;
  if (!(dataError instanceof DataError)) throw cause;
  return { answer: failed(dataError, path), stale: mayBeStale(cause) };
};

const attempt = async (graph: Graph, request: GraphqlRequest, deps: Deps): Promise<Attempt> => {
  try {
    const { document, errors } = graph.read(request.query);
    if (errors) return { answer: refused(errors), stale: true };
    const operation = chooseOperation(document, request.operationName);
    const isQuery = operation.node.operation === 'query';
    if (request.readOnly && !isQuery) throw new MutationRefused('GET answers queries only.');
    const variables = coerced(() => graph.schemaOf(document), operation, request.variables);
    const answer = isQuery ? answerQuery : answerMutation;
    const { data, replayed } = await answer(graph, operation, { variables, request }, deps);
    return answered({ data, errors: [], wrote: !isQuery && !replayed, replayed });
  } catch (error) {
    return afterFailure(error, request);
  }
};

// Tools read the whole of it and keep it: it has to be of now.
const selectsSchema = ({ query }: GraphqlRequest): boolean => /\b__(schema|type)\b/.test(query);

/**
 * Answers GraphQL over projects' tables: one statement for a query, one transaction for a mutation.
 * @throws {MutationRefused} with `readOnly`
 * @throws {DataError} `idempotency_mismatch`, `idempotency_keys_full`
 */
export const createGraphql = (): ((request: GraphqlRequest, deps: GraphqlDeps) => Promise<GraphqlAnswer>) => {
  const graphOf = createGraphs();
  return async (request, deps) => {
    const { projectId, role } = request.caller;
    const { schemas } = deps;
    const known = await schemas.get(projectId, role);
    const data = selectsSchema(request) ? ((await schemas.newer(projectId, known, role)) ?? known) : known;
    const first = await attempt(graphOf(projectId, data), request, deps);
    const newer = first.stale ? await schemas.newer(projectId, data, role) : null;
    if (newer === null) return first.answer;
    return (await attempt(graphOf(projectId, newer), request, deps)).answer;
  };
};
