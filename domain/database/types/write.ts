import type { Column, Relationship, Table } from '#domain/data-api/schema/types.ts';
import type { Attribute, RoutineShape, TypedSchema } from './read.ts';
import { helperTypes } from './helpers.ts';

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

const namerOf = ({ tables, enums, composites }: TypedSchema): Namer => {
  const named = new Map([
    ...tables.map(({ name, kind }) => [name, `${at(groupOf(kind), name)}['Row']`] as const),
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
      const union = enumValues.map((value) => JSON.stringify(value)).join(' | ');
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

const strings = (values: readonly string[]): string => `[${values.map((value) => JSON.stringify(value)).join(', ')}]`;

const relationshipOf = ({ constraint, kind, columns, target, targetColumns }: Relationship): string =>
  `{ foreignKeyName: ${JSON.stringify(constraint)}; columns: ${strings(columns)}; isOneToOne: ${kind === 'one-to-one'}; ` +
  `referencedRelation: ${JSON.stringify(target)}; referencedColumns: ${strings(targetColumns)} }`;

const tableOf = (table: Table, namer: Namer): string => {
  const indent = '        ';
  const isWritable = { Row: true, Insert: table.insertable, Update: table.updatable };
  const uses = (['Row', 'Insert', 'Update'] as const)
    .filter((use) => groupOf(table.kind) === 'Tables' || isWritable[use])
    .map(
      (use) =>
        `${use}: ${object(
          columnsOf(table).map((column) => fieldOf(column, use, namer)),
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

const groupsOf = (schema: TypedSchema): string[] => {
  const namer = namerOf(schema);
  const { Tables = [], Views = [] } = Object.groupBy(schema.tables, ({ kind }) => groupOf(kind));
  const routines = Map.groupBy(schema.routines, ({ name }) => name);
  return [
    group(
      'Tables',
      Tables.map((table) => tableOf(table, namer)),
    ),
    group(
      'Views',
      Views.map((table) => tableOf(table, namer)),
    ),
    group(
      'Functions',
      [...routines].map(
        ([name, list]) => `${property(name)}: ${list.map((one) => signatureOf(one, namer)).join(' | ')}`,
      ),
    ),
    group(
      'Enums',
      schema.enums.map(
        ({ name, values }) => `${property(name)}: ${values.map((value) => JSON.stringify(value)).join(' | ')}`,
      ),
    ),
    group(
      'CompositeTypes',
      schema.composites.map((of) => `${property(of.name)}: ${attributes(of.attributes, namer, ' | null')}`),
    ),
  ];
};

const constants = ({ enums }: TypedSchema): string => {
  const lines = enums.map(({ name, values }) => `      ${property(name)}: ${strings(values)},`);
  return `export const Constants = {\n  public: {\n    Enums: {${lines.length === 0 ? '' : `\n${lines.join('\n')}\n    `}},\n  },\n} as const;`;
};

/** A TypeScript module in the form that supabase-js takes for `createClient<Database>`. */
export const writeTypes = (schema: TypedSchema): string =>
  [
    'export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[];',
    `export type Database = {\n  public: {\n${groupsOf(schema).join('\n')}\n  };\n};`,
    helperTypes,
    constants(schema),
    '',
  ].join('\n\n');
