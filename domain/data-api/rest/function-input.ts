import type { DataSchema } from '#domain/data-api/schema/types.ts';
import type { Arguments } from '#domain/data-api/sql/rpc.ts';
import { type Chosen, type Given, chooseFunction } from './choose-function.ts';
import { argumentsOf } from './body-reading.ts';
import { mediaTypeOf, textOf, wholeBodyType } from './payload.ts';
import type { ParsedQuery } from './grammar/ast.ts';
import { parseQuery } from './grammar/query.ts';
import type { Dialect, RestRequest, Work } from './request.ts';

export interface FunctionCall extends Chosen {
  readonly given: Arguments;
}

// Words of the dialect; a parameter of such a name can only be given by POST.
const reserved = new Set([
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
    ? pairsOf(request.queryText).filter(([key]) => !reserved.has(key))
    : query.args;
  const values = new Map<string, string[]>();
  for (const [key, value] of pairs) values.set(key, [...(values.get(key) ?? []), value]);
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
export const functionCallOf = (work: Work, name: string): FunctionCall =>
  work.request.method === 'POST' ? byBody(work.schema, name, work.request) : byQuery(work, name);
