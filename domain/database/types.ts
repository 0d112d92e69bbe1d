import type { ClientBase } from 'pg';
import { maxAnswerLength } from '#domain/data-api/answer-body.ts';
import { introspectionOf, schemaOf } from '#domain/data-api/schema/introspect.ts';
import type { Column, Relationship, Table } from '#domain/data-api/schema/schema.ts';
import { DataError } from '#domain/data-api/errors.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { createPause, mapInTurns } from '#lib/in-turns.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { withinBytes } from '#lib/postgres/within-bytes.ts';

/** Short names for what is in `Database`; a second schema would be the second parameter's. */
const helperTypes = `type SchemaName = keyof Database;
type Relations<S extends SchemaName> = Database[S]['Tables'] & Database[S]['Views'];
type Part<Relation, Use extends string> = Relation extends { [Key in Use]: infer Found } ? Found : never;

export type Tables<Name extends keyof Relations<S>, S extends SchemaName = 'public'> = Part<Relations<S>[Name], 'Row'>;
export type TablesInsert<Name extends keyof Relations<S>, S extends SchemaName = 'public'> = Part<Relations<S>[Name], 'Insert'>;
export type TablesUpdate<Name extends keyof Relations<S>, S extends SchemaName = 'public'> = Part<Relations<S>[Name], 'Update'>;
export type Enums<Name extends keyof Database[S]['Enums'], S extends SchemaName = 'public'> = Database[S]['Enums'][Name];
export type CompositeTypes<
  Name extends keyof Database[S]['CompositeTypes'],
  S extends SchemaName = 'public',
> = Database[S]['CompositeTypes'][Name];`;

/** The name of a type: its own, an array's with `_` before it; of a domain its base type. */
interface Attribute {
  readonly name: string;
  readonly type: string;
}

interface RoutineShape {
  readonly name: string;
  readonly arguments: readonly (Attribute & { readonly optional: boolean })[];
  readonly returns: string;
  readonly set: boolean;
  /** The columns of a RETURNS TABLE, or OUT parameters; null without any. */
  readonly outputs: readonly Attribute[] | null;
}

/** The source of the types: schema `public` of a project's database, at one moment. */
interface TypedSchema {
  readonly tables: readonly Table[];
  readonly routines: readonly RoutineShape[];
  readonly enums: readonly { readonly name: string; readonly values: readonly string[] }[];
  readonly composites: readonly { readonly name: string; readonly attributes: readonly Attribute[] }[];
}

const own = (catalog: string, oid: string): string =>
  `not exists (select from pg_catalog.pg_depend e where e.classid = '${catalog}'::regclass and e.objid = ${oid} and e.deptype = 'e')`;

const typeName = (oid: string): string =>
  `(select case when t.typtype = 'd' then b.typname else t.typname end from pg_catalog.pg_type t
    left join pg_catalog.pg_type b on b.oid = t.typbasetype where t.oid = ${oid})`;

const enumsSql = `
  select t.typname as name, pg_catalog.json_agg(e.enumlabel order by e.enumsortorder) as values
  from pg_catalog.pg_type t join pg_catalog.pg_enum e on e.enumtypid = t.oid
  where t.typnamespace = 'public'::regnamespace and ${own('pg_type', 't.oid')}
  group by 1 order by 1`;

const compositesSql = `
  select c.relname as name, coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('name', a.attname, 'type', ${typeName('a.atttypid')})
    order by a.attnum) filter (where a.attnum > 0 and not a.attisdropped), '[]') as attributes
  from pg_catalog.pg_class c left join pg_catalog.pg_attribute a on a.attrelid = c.oid
  where c.relkind = 'c' and c.relnamespace = 'public'::regnamespace and ${own('pg_type', 'c.reltype')}
  group by c.oid, c.relname order by 1`;

const parameters = (modes: string): string => `
  select pg_catalog.json_agg(pg_catalog.json_build_object('name', x.name, 'type', ${typeName('x.type')},
    'optional', x.place > p.pronargs - p.pronargdefaults) order by x.place)
  from (select coalesce(p.proargnames[i.at], '') as name, i.type, pg_catalog.row_number() over (order by i.at) as place
    from pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as i (type, at)
    where coalesce(p.proargmodes[i.at], 'i') in (${modes})) x`;

const routinesSql = `
  select p.proname as name, coalesce((${parameters(`'i', 'b', 'v'`)}), '[]') as arguments, ${typeName('p.prorettype')} as returns,
    p.proretset as set, (${parameters(`'o', 'b', 't'`)}) as outputs
  from pg_catalog.pg_proc p
  where p.pronamespace = 'public'::regnamespace and p.prokind = 'f' and ${own('pg_proc', 'p.oid')}
    and p.prorettype not in ('pg_catalog.trigger'::regtype, 'pg_catalog.event_trigger'::regtype)
  order by p.proname, p.oid`;

/** As much as the data API reads of a schema. */
const maxReadBytes = 16 * 1024 * 1024;

const rowsOf = async <T extends object>(client: ClientBase, sql: string): Promise<T[]> =>
  (await client.query<T>(sql)).rows;

/** Tables, views, functions and types, as many as the data API serves. */
const maxParts = 50_000;

const tooLarge = (): ServiceError =>
  new ServiceError('payload_too_large', 'The description of this schema is too large.', {
    hint: `It may have ${maxParts} tables, views, functions and types, described in ${maxReadBytes / 1024 / 1024} MB.`,
  });

const readAll = async (client: ClientBase): Promise<TypedSchema> => {
  const { text, params } = introspectionOf('public');
  const { rows } = await client.query<(string | null)[]>({ text, values: [...params], rowMode: 'array' });
  const types = {
    routines: await rowsOf<RoutineShape>(client, routinesSql),
    enums: await rowsOf<TypedSchema['enums'][number]>(client, enumsSql),
    composites: await rowsOf<TypedSchema['composites'][number]>(client, compositesSql),
  };
  if (rows.length + types.enums.length + types.composites.length > maxParts) throw tooLarge();
  return { ...types, tables: [...schemaOf(rows).tables.values()] };
};

/** Reads it in one snapshot. */
export const readTypedSchema = async (client: ClientBase, timeoutMs: number): Promise<TypedSchema> => {
  await client.query(`begin isolation level repeatable read read only; set local statement_timeout = ${timeoutMs}`);
  try {
    return await readAll(client);
  } finally {
    await client.query('rollback');
  }
};

const typesOf = (result: string, names: string): [string, string][] => names.split(' ').map((name) => [name, result]);

/** The JSON form of a value, by the name of its type. */
const scalars: ReadonlyMap<string, string> = new Map([
  ...typesOf('number', 'int2 int4 int8 float4 float8 numeric oid'),
  ...typesOf('boolean', 'bool'),
  ...typesOf('Json', 'json jsonb hstore'),
  ...typesOf('undefined', 'void'),
  ...typesOf('Record<string, unknown>', 'record'),
  ...typesOf(
    'string',
    'text varchar bpchar char name citext uuid bytea date time timetz timestamp timestamptz interval inet cidr macaddr ' +
      'macaddr8 tsvector tsquery xml money bit varbit point line lseg box path polygon circle ltree vector halfvec ' +
      'sparsevec int4range int8range numrange tsrange tstzrange daterange int4multirange int8multirange nummultirange ' +
      'tsmultirange tstzmultirange datemultirange regclass regtype regproc pg_lsn',
  ),
]);

const property = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));
const at = (group: string, name: string): string => `Database['public']['${group}'][${JSON.stringify(name)}]`;

interface Namer {
  readonly type: (name: string) => string;
  readonly column: (column: Column) => string;
}

const namerOf = async ({ tables, enums, composites }: TypedSchema): Promise<Namer> => {
  const named = new Map([
    // The kind of a table is parsed when it is asked for.
    ...(await mapInTurns(tables, ({ name, kind }) => [name, `${at(groupOf(kind), name)}['Row']`] as const)),
    ...enums.map(({ name }) => [name, at('Enums', name)] as const),
    ...composites.map(({ name }) => [name, at('CompositeTypes', name)] as const),
  ]);
  const type = (name: string): string => {
    const known = named.get(name) ?? scalars.get(name);
    if (known !== undefined) return known;
    return name.startsWith('_') ? `${inArray(type(name.slice(1)))}[]` : 'unknown';
  };
  return {
    type,
    column: ({ baseType, enumValues }) => {
      const known = type(baseType);
      // An enumeration of another schema.
      if (!known.startsWith('unknown') || enumValues === null) return known;
      const union = unionOf(enumValues);
      return known === 'unknown' ? union : `(${union})[]`;
    },
  };
};

const inArray = (type: string): string => (type.includes(' | ') ? `(${type})` : type);
const groupOf = (kind: Table['kind']): 'Tables' | 'Views' =>
  kind === 'view' || kind === 'materialized' ? 'Views' : 'Tables';

/** Lines within braces, or the type of an object without fields. */
const object = (fields: readonly string[], indent: string): string =>
  fields.length === 0
    ? 'Record<never, never>'
    : `{\n${fields.map((field) => `${indent}  ${field}`).join('\n')}\n${indent}}`;

const columnsOf = ({ columns }: Table): Column[] =>
  [...columns.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));

type Use = 'Row' | 'Insert' | 'Update';

const isOptional = (column: Column, use: Use): boolean =>
  use === 'Update' || (use === 'Insert' && (column.nullable || column.default !== null || column.generated));

const fieldOf = (column: Column, use: Use, namer: Namer): string => {
  const mark = isOptional(column, use) ? '?' : '';
  const isWritten = use === 'Row' || !column.generated;
  const type = isWritten ? `${namer.column(column)}${column.nullable ? ' | null' : ''}` : 'never';
  return `${property(column.name)}${mark}: ${type}`;
};

const unionOf = (values: readonly string[]): string => values.map((value) => JSON.stringify(value)).join(' | ');
const strings = (values: readonly string[]): string => `[${values.map((value) => JSON.stringify(value)).join(', ')}]`;

const relationshipOf = ({ constraint, kind, columns, target, targetColumns }: Relationship): string =>
  `{ foreignKeyName: ${JSON.stringify(constraint)}; columns: ${strings(columns)}; isOneToOne: ${kind === 'one-to-one'}; ` +
  `referencedRelation: ${JSON.stringify(target)}; referencedColumns: ${strings(targetColumns)} }`;

const tableOf = (table: Table, namer: Namer): string => {
  const indent = '        ';
  const isWritable = { Row: true, Insert: table.insertable, Update: table.updatable };
  const columns = columnsOf(table);
  const uses = (['Row', 'Insert', 'Update'] as const)
    .filter((use) => groupOf(table.kind) === 'Tables' || isWritable[use])
    .map(
      (use) =>
        `${use}: ${object(
          columns.map((column) => fieldOf(column, use, namer)),
          indent,
        )}`,
    );
  const own = table.relationships.filter(({ holdsKey }) => holdsKey).map(relationshipOf);
  const relationships = own.length === 0 ? '[]' : `[\n${own.map((one) => `${indent}  ${one},`).join('\n')}\n${indent}]`;
  return `${property(table.name)}: {\n${[...uses, `Relationships: ${relationships}`].map((line) => `${indent}${line}`).join('\n')}\n      }`;
};

const attributes = (list: readonly Attribute[], namer: Namer, orNull = ''): string =>
  `{ ${list.map(({ name, type }) => `${property(name)}: ${namer.type(type)}${orNull}`).join('; ')} }`;

const signatureOf = ({ arguments: list, returns, set, outputs }: RoutineShape, namer: Namer): string => {
  const args = list.map(({ name, type, optional }) => `${property(name)}${optional ? '?' : ''}: ${namer.type(type)}`);
  const several = outputs !== null && (outputs.length > 1 || returns === 'record');
  const one = several ? attributes(outputs, namer) : namer.type(returns);
  const result = set ? `${inArray(one)}[]` : one;
  return `{ Args: ${args.length === 0 ? 'Record<PropertyKey, never>' : `{ ${args.join('; ')} }`}; Returns: ${result} }`;
};

const group = (name: string, entries: readonly string[]): string =>
  `    ${name}: ${entries.length === 0 ? 'Record<never, never>' : `{\n${entries.map((entry) => `      ${entry}`).join('\n')}\n    }`}`;

/** The texts of a group's entries. All groups together are as long as an answer may be. */
type Write = <Entry>(entries: readonly Entry[], text: (entry: Entry) => string) => Promise<string[]>;

const createWrite = (): Write => {
  const pause = createPause();
  let length = 0;
  return async (entries, text) => {
    const texts: string[] = [];
    for (const entry of entries) {
      const written = text(entry);
      length += written.length;
      if (length > maxAnswerLength) throw tooLarge();
      texts.push(written);
      await pause();
    }
    return texts;
  };
};

const groupsOf = async (schema: TypedSchema): Promise<string[]> => {
  const namer = await namerOf(schema);
  const write = createWrite();
  const { Tables = [], Views = [] } = Object.groupBy(schema.tables, ({ kind }) => groupOf(kind));
  const signatures = await write(schema.routines, (routine) => signatureOf(routine, namer));
  const routines = Map.groupBy(signatures, (_signature, index) => schema.routines[index]?.name ?? '');
  const writeTables = (tables: readonly Table[]) => write(tables, (table) => tableOf(table, namer));
  return [
    group('Tables', await writeTables(Tables)),
    group('Views', await writeTables(Views)),
    group(
      'Functions',
      [...routines].map(([name, list]) => `${property(name)}: ${list.join(' | ')}`),
    ),
    group('Enums', await write(schema.enums, ({ name, values }) => `${property(name)}: ${unionOf(values)}`)),
    group(
      'CompositeTypes',
      await write(schema.composites, (of) => `${property(of.name)}: ${attributes(of.attributes, namer, ' | null')}`),
    ),
  ];
};

const constants = ({ enums }: TypedSchema): string => {
  const lines = enums.map(({ name, values }) => `      ${property(name)}: ${strings(values)},`);
  return `export const Constants = {\n  public: {\n    Enums: {${lines.length === 0 ? '' : `\n${lines.join('\n')}\n    `}},\n  },\n} as const;`;
};

/** A TypeScript module in the form that supabase-js takes for `createClient<Database>`. */
const writeTypes = async (schema: TypedSchema): Promise<string> =>
  [
    'export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[];',
    `export type Database = {\n  public: {\n${(await groupsOf(schema)).join('\n')}\n  };\n};`,
    helperTypes,
    constants(schema),
    '',
  ].join('\n\n');

const timeoutMs = 20_000;

const isTimeout = (error: unknown): boolean => error instanceof Error && Reflect.get(error, 'code') === '57014';

const failureOf = (error: unknown): unknown => {
  if (isTimeout(error)) return new DataError(504, '57014', 'Reading the schema took too long.');
  return error instanceof AnswerTooLarge ? tooLarge() : error;
};

const readWithin = (client: ClientBase): Promise<TypedSchema> =>
  withinBytes(client, maxReadBytes, () => readTypedSchema(client, timeoutMs));

/**
 * TypeScript types of schema `public`, in the form of supabase-js: `createClient<Database>(…)`.
 * @throws {DataError} 57014 after 20 s
 * @throws {ServiceError} `payload_too_large`
 */
export const typesOfProject = async (tenantDb: Pick<ProjectDb, 'use'>, projectId: string): Promise<string> => {
  try {
    return await writeTypes(await tenantDb.use(projectId, 'reader', readWithin));
  } catch (error) {
    throw failureOf(error);
  }
};
