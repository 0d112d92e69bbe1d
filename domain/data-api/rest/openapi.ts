import { createPause } from '#lib/in-turns.ts';
import { type AnswerBody, jsonObject, maxAnswerLength } from '../answer-body.ts';
import { DataError } from '../errors.ts';
import type { Column, DataSchema, Routine, Table } from '../schema/schema.ts';
import { quoteName } from '../sql/sql.ts';
import type { RestAnswer, Work } from './request.ts';

type Json = Readonly<Record<string, unknown>>;

const scalars: Readonly<Record<string, Json>> = {
  int2: { type: 'integer' },
  int4: { type: 'integer', format: 'int32' },
  int8: { type: 'integer', format: 'int64' },
  oid: { type: 'integer' },
  float4: { type: 'number' },
  float8: { type: 'number' },
  numeric: { type: 'number' },
  bool: { type: 'boolean' },
  uuid: { type: 'string', format: 'uuid' },
  date: { type: 'string', format: 'date' },
  timestamptz: { type: 'string', format: 'date-time' },
  json: {},
  jsonb: {},
  void: {},
};

const typeOf = (baseType: string, type: string): Json => {
  if (baseType.startsWith('_')) return { type: 'array', items: typeOf(baseType.slice(1), type.replace(/\[\]$/, '')) };
  return (Object.hasOwn(scalars, baseType) ? scalars[baseType] : undefined) ?? { type: 'string', format: type };
};

const columnSchema = ({ baseType, type, enumValues, comment, nullable, generated, default: given }: Column): Json => {
  const plain = enumValues === null ? typeOf(baseType, type) : { type: 'string', enum: enumValues };
  const known = typeof plain['type'] === 'string' && nullable ? { ...plain, type: [plain['type'], 'null'] } : plain;
  return {
    ...known,
    ...(enumValues !== null && nullable && { enum: [...enumValues, null] }),
    ...(comment !== null && { description: comment }),
    ...(given !== null && { 'x-default': given }),
    ...(generated && { readOnly: true }),
  };
};

const isRequired = ({ nullable, generated, default: given }: Column): boolean =>
  !nullable && !generated && given === null;

const tableSchema = (table: Table): Json => {
  const columns = [...table.columns.values()];
  const required = columns.filter(isRequired).map(({ name }) => name);
  return {
    type: 'object',
    ...(table.comment !== null && { description: table.comment }),
    ...(table.primaryKey.length > 0 && { 'x-primary-key': table.primaryKey }),
    properties: Object.fromEntries(columns.map((column) => [column.name, columnSchema(column)])),
    ...(required.length > 0 && { required }),
  };
};

const parameter = (name: string): Json => ({ $ref: `#/components/parameters/${name}` });
const pointer = (name: string): string => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'));

const content = (schema: Json): Json => ({ 'application/json': { schema } });

const operation = (table: Table, summary: string, rest: Json): Json => ({ tags: [table.name], summary, ...rest });

const filtersOf = ({ columns }: Table): Json[] =>
  [...columns.values()].map(({ name, type }) => ({
    name,
    in: 'query',
    description: `A filter, e.g. eq.1 (${type})`,
    schema: { type: 'string' },
  }));

const writes = (table: Table, row: Json): Json => {
  const filters = filtersOf(table);
  const body = { requestBody: { content: content(row) } };
  const done = {
    responses: {
      200: { description: 'Changed; the rows with Prefer: return=representation' },
      204: { description: 'Changed' },
    },
  };
  const created = { responses: { 201: { description: 'Created', content: content(row) } } };
  return {
    ...(table.insertable && {
      post: operation(table, `Create rows of ${table.name}`, {
        parameters: [parameter('select')],
        ...body,
        ...created,
      }),
    }),
    ...(table.updatable && {
      patch: operation(table, `Change rows of ${table.name}`, { parameters: filters, ...body, ...done }),
      delete: operation(table, `Delete rows of ${table.name}`, { parameters: filters, ...done }),
    }),
  };
};

const tablePath = (table: Table): Json => {
  const row = { $ref: `#/components/schemas/${pointer(table.name)}` };
  const parameters = [...filtersOf(table), ...['select', 'order', 'limit', 'offset'].map(parameter)];
  const list = content({ type: 'array', items: row });
  const responses = {
    200: { description: 'Rows', content: list },
    206: { description: 'A part of the rows', content: list },
  };
  return { get: operation(table, `Rows of ${table.name}`, { parameters, responses }), ...writes(table, row) };
};

// `format_type` writes types at length; columns have their short names.
const shortNames: Readonly<Record<string, string>> = {
  smallint: 'int2',
  integer: 'int4',
  bigint: 'int8',
  real: 'float4',
  'double precision': 'float8',
  boolean: 'bool',
  'timestamp with time zone': 'timestamptz',
};

const parameterSchema = (type: string): Json => {
  const element = type.replace(/\[\]$/, '');
  const base = shortNames[element] ?? element;
  return typeOf(type.endsWith('[]') ? `_${base}` : base, type);
};

const functionPath = (routine: Routine): Json => {
  const named = routine.parameters.filter(({ name }) => name !== '');
  const required = named.filter(({ optional }) => !optional).map(({ name }) => name);
  const schema = {
    type: 'object',
    properties: Object.fromEntries(named.map(({ name, type }) => [name, parameterSchema(type)])),
    ...(required.length > 0 && { required }),
  };
  return {
    post: {
      tags: ['rpc'],
      summary: routine.comment ?? `Call ${routine.name}`,
      requestBody: { content: content(schema) },
      responses: { 200: { description: `The result (${routine.returns.type})` } },
    },
  };
};

const queryParameters = {
  select: 'Columns and related rows, separated by commas',
  order: 'column.asc or column.desc, separated by commas',
  limit: 'Rows of the page; at most 1000',
  offset: 'Rows skipped',
};

const sharedParameters: Json = Object.fromEntries(
  Object.entries(queryParameters).map(([name, description]) => [
    name,
    { name, in: 'query', description, schema: { type: name === 'limit' || name === 'offset' ? 'integer' : 'string' } },
  ]),
);

/** The objects that a caller may use at all: names of relations and of functions. */
interface Visible {
  readonly tables: ReadonlySet<string>;
  readonly functions: ReadonlySet<string>;
}

const visibleSql = `select
  (select coalesce(json_agg(c.relname), '[]') from pg_class c where c.relnamespace = to_regnamespace($1)
    and c.relkind in ('r', 'p', 'v', 'm', 'f') and has_table_privilege(c.oid, 'select, insert, update, delete')),
  (select coalesce(json_agg(distinct p.proname), '[]') from pg_proc p where p.pronamespace = to_regnamespace($1)
    and has_function_privilege(p.oid, 'execute'))`;

const setOf = (text: string | null | undefined): Set<string> => new Set(JSON.parse(text ?? '[]') as string[]);

const visibleTo = async ({ caller, schema, executor }: Work): Promise<Visible> => {
  if (caller.role === 'service')
    return { tables: new Set(schema.tables.keys()), functions: new Set(schema.routines.keys()) };
  const [tables, functions] = await executor.one('read', { text: visibleSql, params: [quoteName(schema.name)] });
  return { tables: setOf(tables), functions: setOf(functions) };
};

type Fields = readonly (readonly [key: string, json: string])[];

/** Writes values of objects, a few at a time: there may be thousands, of 1,600 columns each. */
const createWriter = (): ((values: ReadonlyMap<string, () => Json>) => Promise<Fields>) => {
  const pause = createPause();
  let length = 0;
  return async (values) => {
    const fields: (readonly [string, string])[] = [];
    for (const [key, value] of values) {
      const json = JSON.stringify(value());
      fields.push([key, json]);
      length += json.length;
      if (length > maxAnswerLength)
        throw new DataError(
          400,
          '54000',
          'The description of all tables and functions is longer than an answer may be.',
        );
      await pause();
    }
    return fields;
  };
};

const documentOf = async ({ tables, routines }: DataSchema, visible: Visible): Promise<AnswerBody> => {
  const shown = [...tables.values()].filter(({ name }) => visible.tables.has(name));
  const called = [...routines.values()].flatMap(([first]) =>
    first !== undefined && visible.functions.has(first.name) ? [first] : [],
  );
  const written = createWriter();
  const paths = await written(
    new Map([
      ...shown.map((table) => [`/${table.name}`, () => tablePath(table)] as const),
      ...called.map((routine) => [`/rpc/${routine.name}`, () => functionPath(routine)] as const),
    ]),
  );
  const schemas = await written(new Map(shown.map((table) => [table.name, () => tableSchema(table)] as const)));
  const info = { title: 'Data API', description: 'The tables and functions of this project.', version: '1' };
  const securitySchemes = { apiKey: { type: 'apiKey', in: 'header', name: 'apikey' } };
  const components = jsonObject([
    ['schemas', jsonObject(schemas)],
    ['parameters', JSON.stringify(sharedParameters)],
    ['securitySchemes', JSON.stringify(securitySchemes)],
  ]);
  return jsonObject([
    ['openapi', JSON.stringify('3.1.0')],
    ['info', JSON.stringify(info)],
    ['paths', jsonObject(paths)],
    ['components', components],
    ['security', JSON.stringify([{ apiKey: [] }])],
  ]);
};

/** `GET …/`: the project's own OpenAPI document, of what the caller may use. */
export const describeProject = async (work: Work): Promise<RestAnswer> => ({
  status: 200,
  headers: {},
  type: 'application/json; charset=utf-8',
  body: await documentOf(work.schema, await visibleTo(work)),
});
