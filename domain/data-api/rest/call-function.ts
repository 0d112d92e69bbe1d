import { isForProxies } from '#lib/proxy-headers.ts';
import { DataError } from '../errors.ts';
import type { DataSchema, Routine, Column, Table } from '../schema/schema.ts';
import { nearest } from '#lib/nearest.ts';
import { type Arguments, calledSql } from '../sql/rpc.ts';
import { argumentsOf, mediaTypeOf, textOf, wholeBodyType } from './payload.ts';
import type { ParsedQuery } from './grammar/grammar.ts';
import { parseQuery } from './grammar/query.ts';
import {
  type Dialect,
  type RestRequest,
  type Work,
  type Form,
  preferenceApplied,
  type RestAnswer,
  headersOf,
} from './request.ts';
import type { RunRows, TextRow, ReadPlan, Sql } from '../data-api.ts';
import { type SqlBuilder, createSqlBuilder, piecesSql, fetchable } from '../sql/sql.ts';
import { requireAffordable } from './write-rows.ts';
import { pageAnswer, pageOfRows, pageSql } from './read-rows.ts';
import { pageOf, planOf } from './tables.ts';

/**
 * The settings by which a function sets its own answer: `response.status` and `response.headers` (PostgREST, "Response
 * Headers").
 */
interface OwnAnswer {
  readonly status: number | null;
  readonly headers: Readonly<Record<string, string>>;
}

const statusError = (): DataError => new DataError(500, 'PGRST112', 'response.status guc must be a valid status code');

const headersError = (): DataError =>
  new DataError(
    500,
    'PGRST111',
    'response.headers guc must be a JSON array composed of objects with a single key and a string value',
  );

/** Characters that `response.status` and `response.headers` may have. */
const maxOwnAnswerLength = 16_384;

// Headers that a function may set. All projects are served from one origin, so a project may not set what a browser
// applies to the origin (cookies, policies, cross-origin access, authentication), nor the framing and the type of the
// answer, which is negotiated.
const allowed =
  /^(?:cache-control|content-disposition|content-language|etag|expires|last-modified|link|location|retry-after|sunset|x-.+)$/;

// Headers with `x-` that stay reserved beside those for proxies: browsers act on them, or the platform sets them itself.
const reservedHeaders =
  /^x-(?:request-id|ratelimit-.*|rate-limit-.*|frame-options|content-type-options|xss-protection|permitted-cross-domain-policies|dns-prefetch-control|download-options|ua-compatible)$/;

const isAllowed = (name: string): boolean => allowed.test(name) && !reservedHeaders.test(name) && !isForProxies(name);

const isHeader = (name: string, value: unknown): value is string =>
  /^[\w!#$%&'*+.^`|~-]{1,100}$/.test(name) && typeof value === 'string' && /^[\t\x20-\x7e]*$/.test(value);

const pairOf = (entry: unknown): [string, string] => {
  const pairs: [string, unknown][] = typeof entry === 'object' && entry !== null ? Object.entries(entry) : [];
  const [pair] = pairs;
  if (pair === undefined || pairs.length !== 1) throw headersError();
  const [name, value] = pair;
  if (!isHeader(name, value)) throw headersError();
  return [name.toLowerCase(), value];
};

const sharing = /^(?:public|private|s-maxage|must-revalidate|proxy-revalidate)\b/i;

/** For the caller's own cache only: a proxy that does not know the keys' headers would give the answer to everybody. */
const privately = (cacheControl: string): string =>
  ['private', ...cacheControl.split(',').map((part) => part.trim())]
    .filter((part, index) => part !== '' && (index === 0 || !sharing.test(part)))
    .join(', ');

const ownHeadersOf = (text: string): Record<string, string> => {
  if (text.length > maxOwnAnswerLength) throw headersError();
  let entries: unknown;
  try {
    entries = JSON.parse(text);
  } catch {
    throw headersError();
  }
  if (!Array.isArray(entries)) throw headersError();
  const headers = Object.fromEntries(entries.map(pairOf).filter(([name]) => isAllowed(name)));
  const isCached = headers['cache-control'] !== undefined || headers['expires'] !== undefined;
  return isCached ? { ...headers, 'cache-control': privately(headers['cache-control'] ?? '') } : headers;
};

/**
 * Headers that are not a function's to set are left out.
 * @throws {DataError} PGRST111, PGRST112 when it makes no sense
 */
const ownAnswerOf = (status: string | null, headers: string | null): OwnAnswer => {
  const code = status === null || status === '' ? null : Number(status);
  if (code !== null && !(Number.isInteger(code) && code >= 200 && code <= 599)) throw statusError();
  return { status: code, headers: headers === null || headers === '' ? {} : ownHeadersOf(headers) };
};

/** The arguments of a call: names of arguments, or a body for a parameter without a name. */
interface Given {
  readonly name: string;
  readonly names: readonly string[];
  /** Types of a single unnamed parameter that the body would fit; none for GET. */
  readonly bodyTypes: readonly string[];
  /** The body is nothing but such a parameter: text and bytes have no names in them. */
  readonly bodyOnly: boolean;
}

interface Chosen {
  readonly routine: Routine;
  /** The body is its one parameter. */
  readonly takesBody: boolean;
}

// The server's own limit.
const maxParameters = 100;
/** Overloads of one name that are considered. */
const maxOverloads = 100;

const fits = ({ parameters }: Routine, names: ReadonlySet<string>): boolean => {
  if (names.size > maxParameters || names.has('')) return false;
  const known = new Set(parameters.map(({ name }) => name));
  return (
    parameters.every(({ name, optional }) => optional || names.has(name)) &&
    names.values().every((name) => known.has(name))
  );
};

const takesBody = ({ parameters }: Routine, types: readonly string[]): boolean => {
  const [first] = parameters;
  return first !== undefined && parameters.length === 1 && first.name === '' && types.includes(first.type);
};

/** PostgREST's words for a call: `public.add(a, b)`, `public.now`. */
const callText = (schema: DataSchema, name: string, names: readonly string[]): string =>
  `${schema.name}.${name}(${names.join(', ')})`;

const hintOf = (schema: DataSchema, { name }: Given, overloads: readonly Routine[]): string | null => {
  const [first] = overloads;
  if (first !== undefined) {
    const parameters = first.parameters.map((parameter) => parameter.name);
    return `Perhaps you meant to call the function ${callText(schema, name, parameters)}`;
  }
  const close = nearest(name, schema.routines.keys());
  return close === null ? null : `Perhaps you meant to call the function ${schema.name}.${close}`;
};

const wordsFor = ({ names, bodyTypes, bodyOnly }: Given): string => {
  const single = bodyTypes.length === 0 ? '' : `with a single unnamed ${bodyTypes.join('/')} parameter`;
  if (bodyOnly) return single;
  const plural = names.length > 1 ? 's' : '';
  const named = names.length === 0 ? 'without parameters' : `with parameter${plural} ${names.join(', ')}`;
  return single === '' ? named : `${named} or ${single}`;
};

const notFound = (schema: DataSchema, given: Given, overloads: readonly Routine[]): DataError => {
  const { name, names, bodyOnly } = given;
  const called = bodyOnly
    ? `${schema.name}.${name}`
    : `${schema.name}.${name}${names.length === 0 ? ' without parameters' : `(${names.join(', ')})`}`;
  return new DataError(404, 'PGRST202', `Could not find the function ${called} in the schema cache`, {
    details: `Searched for the function ${schema.name}.${name} ${wordsFor(given)}, but no matches were found in the schema cache.`,
    hint: bodyOnly && overloads.length > 0 ? null : hintOf(schema, given, overloads),
  });
};

const signature = (schema: DataSchema, { name, parameters }: Routine): string =>
  `${schema.name}.${name}(${parameters.map((parameter) => `${parameter.name} => ${parameter.type}`).join(', ')})`;

const ambiguous = (schema: DataSchema, candidates: readonly Routine[]): DataError =>
  new DataError(
    300,
    'PGRST203',
    `Could not choose the best candidate function between: ${candidates.map((routine) => signature(schema, routine)).join(', ')}`,
    {
      hint: 'Try renaming the parameters or the function itself in the database so function overloading can be resolved',
    },
  );

/**
 * The function that a call means: the one whose parameters are those given, or else the one that takes the whole body.
 * @throws {DataError} PGRST202 when there is none, PGRST203 when there are several
 */
const chooseFunction = (schema: DataSchema, given: Given): Chosen => {
  const overloads = (schema.routines.get(given.name) ?? []).slice(0, maxOverloads);
  const names = new Set(given.names);
  const named = given.bodyOnly ? [] : overloads.filter((routine) => fits(routine, names));
  const candidates = named.length > 0 ? named : overloads.filter((routine) => takesBody(routine, given.bodyTypes));
  const [routine] = candidates;
  if (routine === undefined) throw notFound(schema, given, overloads);
  if (candidates.length > 1) throw ambiguous(schema, candidates);
  return { routine, takesBody: named.length === 0 };
};

interface FunctionCall extends Chosen {
  readonly given: Arguments;
}

// Words of the dialect; a parameter of such a name can only be given by POST.
const reservedParameters = new Set([
  'select',
  'order',
  'limit',
  'offset',
  'columns',
  'on_conflict',
  'and',
  'or',
  'not.and',
  'not.or',
]);

const returnsRows = ({ routines }: DataSchema, name: string): boolean =>
  (routines.get(name) ?? []).some(({ returns }) => returns.composite);

const pairsOf = (queryText: string): [string, string][] => [...new URLSearchParams(queryText)];

/** Whether the query of a request is for the function alone: one that returns no rows has nothing to filter. */
const isAllArguments = (schema: DataSchema, { method, target }: RestRequest): boolean =>
  target.kind === 'function' && method !== 'POST' && !returnsRows(schema, target.name);

/**
 * The query string of a request, read.
 * @throws {DataError} PGRST100, PGRST103
 */
export const queryOf = (schema: DataSchema, request: RestRequest, { bareEquality }: Dialect): ParsedQuery => {
  const { target, method, queryText } = request;
  if (target.kind !== 'function') return parseQuery(queryText, { bareEquality });
  if (!isAllArguments(schema, request)) return parseQuery(queryText, { arguments: method !== 'POST' });
  // An argument may have the form of a filter: `text=in.the.end`.
  const page = pairsOf(queryText).filter(([key]) => key === 'limit' || key === 'offset');
  return parseQuery(new URLSearchParams(page).toString());
};

/** The arguments of a GET: what is no filter. */
const queryArguments = ({ schema, query, request }: Work): Map<string, string[]> => {
  const pairs = isAllArguments(schema, request)
    ? pairsOf(request.queryText).filter(([key]) => !reservedParameters.has(key))
    : query.args;
  const values = new Map<string, string[]>();
  for (const [key, value] of pairs) {
    const known = values.get(key);
    if (known) known.push(value);
    else values.set(key, [value]);
  }
  return values;
};

const byQuery = (work: Work, name: string): FunctionCall => {
  const values = queryArguments(work);
  const given: Given = { name, names: [...values.keys()], bodyTypes: [], bodyOnly: false };
  const chosen = chooseFunction(work.schema, given);
  return { ...chosen, given: values.size === 0 ? { kind: 'none' } : { kind: 'texts', values } };
};

const byWholeBody = (schema: DataSchema, name: string, type: string, body: Buffer): FunctionCall => {
  const text = type === 'bytea' ? String.raw`\x${body.toString('hex')}` : textOf(body);
  const chosen = chooseFunction(schema, { name, names: [], bodyTypes: [type], bodyOnly: true });
  return { ...chosen, given: { kind: 'body', text } };
};

const byObject = (schema: DataSchema, name: string, json: string, names: readonly string[]): FunctionCall => {
  const chosen = chooseFunction(schema, { name, names, bodyTypes: ['json', 'jsonb'], bodyOnly: false });
  return { ...chosen, given: chosen.takesBody ? { kind: 'body', text: json } : { kind: 'json', json, names } };
};

const byBody = (schema: DataSchema, name: string, request: RestRequest): FunctionCall => {
  const type = mediaTypeOf(request.header('content-type'));
  const whole = wholeBodyType(type);
  if (whole !== undefined) return byWholeBody(schema, name, whole, request.body);
  const { json, names } = argumentsOf(request);
  return byObject(schema, name, json, names);
};

/**
 * The function that a request calls, and with what.
 * @throws {DataError} PGRST102, PGRST202, PGRST203
 */
const functionCallOf = (work: Work, name: string): FunctionCall =>
  work.request.method === 'POST' ? byBody(work.schema, name, work.request) : byQuery(work, name);

const unknownColumn = (name: string): Column => ({
  name,
  type: 'unknown',
  baseType: 'unknown',
  nullable: true,
  default: null,
  generated: false,
  comment: null,
  enumValues: null,
});

const noColumns: ReadonlyMap<string, Column> = new Map();

/** Columns of rows that only the server knows: every name may be one, and the server says when it is not. */
const anyColumns: ReadonlyMap<string, Column> = {
  size: 0,
  get: unknownColumn,
  has: () => true,
  forEach: () => undefined,
  entries: () => noColumns.entries(),
  keys: () => noColumns.keys(),
  values: () => noColumns.values(),
  [Symbol.iterator]: () => noColumns.entries(),
};

/** Returns the table that stands for a function's rows, where they are those of a table. */
const resultTable = ({ tables }: DataSchema, { name, comment, sql, returns }: Routine): Table => {
  const table = returns.table === null ? undefined : tables.get(returns.table);
  if (table !== undefined) return table;
  const columns = returns.composite ? anyColumns : new Map([['value', unknownColumn('value')]]);
  return {
    name,
    sql,
    comment,
    columns,
    kind: 'view',
    rowSecurity: false,
    hasPlainColumns: true,
    primaryKey: [],
    uniques: [],
    relationships: [],
    insertable: false,
    updatable: false,
  };
};

// Set by the function for its own answer; asked after it has run.
const ownSettings = ['response.status', 'response.headers'];
const ownAnswer = ownSettings
  .map((name) => `left(current_setting('${name}', true), ${maxOwnAnswerLength + 1}) as "${name}"`)
  .join(', ');

interface Calling {
  readonly work: Work;
  readonly call: FunctionCall;
  readonly plan: ReadPlan;
}

/** A list of values, or the one value. */
const valuesSql = ({ work, call, plan }: Calling, builder: SqlBuilder): string => {
  const { returns } = call.routine;
  if (returns.void) return `select '' as "body", count(*) as "n", null as "total" from called`;
  if (!returns.set)
    return `select coalesce(to_json(c.value)::text, 'null') as "body", 1 as "n", null as "total" from called c`;
  const page = `select c.value from called c limit ${builder.bind(String(plan.limit))} offset ${builder.bind(String(plan.offset))}`;
  const list = `json_agg(p.value)`;
  const body = work.form.kind === 'object' ? `coalesce(${list}->0, 'null')` : `coalesce(${list}, '[]')`;
  const total = work.preferences.count === undefined ? 'null::bigint' : '(select count(*) from called)';
  return `select ${body}::text as "body", count(*) as "n", ${total} as "total" from (${page}) p`;
};

const rowsSql = ({ work, call, plan }: Calling, builder: SqlBuilder): string => {
  const isOne = !call.routine.returns.set && work.form.kind === 'array';
  const form: Form = isOne ? { ...work.form, kind: 'object' } : work.form;
  // A function says nothing of how much it returns before it has: to plan a count is to call it.
  const exactCount = work.preferences.count !== undefined;
  return pageSql(plan, form, builder, { exactCount, from: 'called' });
};

const statementOf = (calling: Calling): Sql => {
  const { work, call } = calling;
  const builder = createSqlBuilder();
  const called = calledSql(call.routine, call.given, builder.bind);
  const asRows = call.routine.returns.composite || work.form.kind === 'csv';
  const page = asRows && !call.routine.returns.void ? rowsSql(calling, builder) : valuesSql(calling, builder);
  const answer = `select ${fetchable('p."body"')} as "body", p."n", p."total", ${ownAnswer} from (${page}) p`;
  const columns = ['n', 'total', ...ownSettings];
  return builder.finish(`with called as materialized (${called}) ${piecesSql(answer, columns, builder)}`);
};

/** @throws {DataError} PGRST107: lines need names, and those of these rows are known to the server alone */
const requireNames = ({ work, call, plan }: Calling): void => {
  const { returns } = call.routine;
  const isNamed = plan.table.columns !== anyColumns || plan.fields.every(({ kind }) => kind !== 'all');
  if (work.form.kind !== 'csv' || !returns.composite || isNamed) return;
  throw new DataError(406, 'PGRST107', 'None of these media types are available: text/csv', {
    hint: 'Name the columns of the result: ?select=a,b.',
  });
};

const isStrict = ({ preferences }: Work): boolean =>
  preferences.maxAffected !== undefined && preferences.handling === 'strict';

const requireSet = (work: Work, { returns }: Routine): void => {
  if (!isStrict(work) || returns.set) return;
  const message = 'Function must return SETOF or TABLE when max-affected preference is used with handling=strict';
  throw new DataError(400, 'PGRST128', message);
};

/** @throws {DataError} 25006: in a transaction that writes, nothing keeps such a function from writing, too */
const requireHarmless = ({ request, executor }: Work, { name, volatility }: Routine): void => {
  if (!executor.isShared || request.method === 'POST' || volatility !== 'volatile') return;
  throw new DataError(405, '25006', `${request.method} in a batch cannot call ${name}, which may write.`, {
    hint: 'Call it with POST, or declare it STABLE if it only reads.',
  });
};

const answerOf = (work: Work, { returns }: Routine, plan: ReadPlan, rows: readonly TextRow[]): RestAnswer => {
  const page = pageOfRows(rows);
  const [, , , status, headers] = rows[0] ?? [];
  const own = ownAnswerOf(status ?? null, headers ?? null);
  const answer = pageAnswer(work, plan.offset, page);
  const applied = preferenceApplied(work.preferences, ['count', 'handling', 'timezone', 'maxAffected']);
  const allHeaders = headersOf({ ...answer.headers, 'Preference-Applied': applied, ...own.headers });
  if (returns.void) return { status: own.status ?? 204, headers: allHeaders, type: '', body: '' };
  return { ...answer, status: own.status ?? answer.status, headers: allHeaders };
};

/**
 * Calls a function. GET can change nothing, whatever the function tries; nor can POST where the function promises not
 * to.
 */
export const callFunction = (work: Work, name: string): Promise<RestAnswer> => {
  const call = functionCallOf(work, name);
  const { routine } = call;
  requireSet(work, routine);
  requireHarmless(work, routine);
  const readPlan = planOf(work, resultTable(work.schema, routine));
  const plan = { ...readPlan, ...pageOf(work, readPlan) };
  const calling = { work, call, plan };
  requireNames(calling);
  const sql = statementOf(calling);
  const run = async (rows: RunRows): Promise<RestAnswer> => {
    const answered = await rows(sql);
    requireAffordable(work, pageOfRows(answered).rows);
    return answerOf(work, routine, plan, answered);
  };
  const mode = work.request.method === 'POST' && routine.volatility === 'volatile' ? 'write' : 'read';
  // A refusal after the function has run undoes it: too many rows, no such page, invalid headers.
  if (mode === 'read') return run((readPlan) => work.executor.rows(mode, readPlan));
  return work.executor.atomically(mode, (_one, rows) => run(rows));
};
