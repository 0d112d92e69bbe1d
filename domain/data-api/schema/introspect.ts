import type { Sql } from '../data-api.ts';
import { quoteName } from '../sql/sql.ts';
import {
  type Column,
  type DataSchema,
  type Routine,
  type Table,
  type TableKind,
  type ForeignKey,
  relationshipsOf,
} from './schema.ts';

/**
 * The one statement that reads a schema, `$1` being its quoted name: its version and its content are of one moment. Its
 * parts are materialized: otherwise the server builds lists for each table, 1.5 s for a hundred of them in place of 30
 * ms.
 */
const introspection = `
with relations as materialized (
  select c.oid, c.relname, c.relkind, c.relrowsecurity, pg_catalog.obj_description(c.oid, 'pg_class') as comment,
    pg_catalog.pg_relation_is_updatable(c.oid, true) as updates
  from pg_catalog.pg_class c
  where c.relnamespace = pg_catalog.to_regnamespace($1) and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and not c.relispartition
    -- What belongs to an extension is not the project's own.
    and not exists (select from pg_catalog.pg_depend d
      where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
), enums as materialized (
  select e.enumtypid, pg_catalog.json_agg(e.enumlabel order by e.enumsortorder) as labels
  from pg_catalog.pg_enum e group by 1
), columns as materialized (
  select a.attrelid, pg_catalog.json_agg(pg_catalog.json_build_array(
      a.attname,
      pg_catalog.format_type(a.atttypid, a.atttypmod),
      case when t.typtype = 'd' then base.typname else t.typname end,
      a.attnotnull or t.typnotnull,
      case when a.attidentity <> '' then 'generated as identity'
        else pg_catalog.pg_get_expr(d.adbin, d.adrelid) end,
      a.attgenerated <> '' or a.attidentity = 'a',
      pg_catalog.col_description(a.attrelid, a.attnum),
      coalesce(own.labels, element.labels)
    ) order by a.attnum) as list
  from pg_catalog.pg_attribute a
  join relations r on r.oid = a.attrelid
  join pg_catalog.pg_type t on t.oid = a.atttypid
  left join pg_catalog.pg_type base on base.oid = t.typbasetype
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join enums own on own.enumtypid = case when t.typtype = 'd' then t.typbasetype else a.atttypid end
  left join enums element on element.enumtypid = t.typelem and t.typcategory = 'A'
  where a.attnum > 0 and not a.attisdropped
  group by 1
), keys as materialized (
  select i.indrelid, pg_catalog.json_agg(pg_catalog.json_build_array(i.indisprimary, (
      select pg_catalog.json_agg(n.attname order by k.place)
      from pg_catalog.unnest(i.indkey::int2[]) with ordinality as k (attnum, place)
      join pg_catalog.pg_attribute n on n.attrelid = i.indrelid and n.attnum = k.attnum
      where k.place <= i.indnkeyatts)) order by i.indisprimary desc, i.indexrelid) as list
  from pg_catalog.pg_index i join relations r on r.oid = i.indrelid
  where i.indisunique and i.indisvalid and i.indpred is null and not (0 = any (i.indkey::int2[])) and i.indimmediate
  group by 1
), foreign_keys as materialized (
  select c.conrelid, pg_catalog.json_agg(pg_catalog.json_build_array(c.conname, f.relname,
      (select pg_catalog.json_agg(n.attname order by k.place)
        from pg_catalog.unnest(c.conkey) with ordinality as k (attnum, place)
        join pg_catalog.pg_attribute n on n.attrelid = c.conrelid and n.attnum = k.attnum),
      (select pg_catalog.json_agg(n.attname order by k.place)
        from pg_catalog.unnest(c.confkey) with ordinality as k (attnum, place)
        join pg_catalog.pg_attribute n on n.attrelid = c.confrelid and n.attnum = k.attnum)) order by c.conname) as list
  from pg_catalog.pg_constraint c join relations r on r.oid = c.conrelid join relations f on f.oid = c.confrelid
  where c.contype = 'f'
    -- Those that partitions bring are copies of their parent's.
    and c.conparentid = 0
  group by 1
), routines as materialized (
  select p.proname, pg_catalog.obj_description(p.oid, 'pg_proc') as comment, p.provariadic <> 0 as variadic,
    p.provolatile, p.proretset, p.prorettype = 'pg_catalog.void'::regtype as is_void,
    pg_catalog.format_type(p.prorettype, null) as returns,
    t.typtype = 'c' or coalesce(p.proargmodes && '{t,o,b}', false) or p.prorettype = 'pg_catalog.record'::regtype
      as composite,
    r.relname as of_table,
    coalesce((select pg_catalog.json_agg(pg_catalog.json_build_array(coalesce(a.name, ''),
          pg_catalog.format_type(a.type, null), a.place > p.pronargs - p.pronargdefaults) order by a.place)
      from (select coalesce(p.proargnames[i.all_place], '') as name, i.type, pg_catalog.row_number() over (order by i.all_place) as place
        from pg_catalog.unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as i (type, all_place)
        where p.proargmodes is null or p.proargmodes[i.all_place] in ('i', 'b', 'v')) a), '[]'::json) as parameters
  from pg_catalog.pg_proc p
  join pg_catalog.pg_type t on t.oid = p.prorettype
  left join relations r on r.oid = t.typrelid
  where p.pronamespace = pg_catalog.to_regnamespace($1) and p.prokind = 'f'
    and p.prorettype not in ('pg_catalog.trigger'::regtype, 'pg_catalog.event_trigger'::regtype)
    and not exists (select from pg_catalog.pg_depend d
      where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
)
select plinth_api.schema_version(),
  (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(r.relname, r.relkind, r.comment, r.relrowsecurity,
      r.updates, coalesce(c.list, '[]'), coalesce(k.list, '[]'), coalesce(f.list, '[]')) order by r.relname), '[]')
    from relations r left join columns c on c.attrelid = r.oid left join keys k on k.indrelid = r.oid
    left join foreign_keys f on f.conrelid = r.oid)::text,
  (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(r.proname, r.comment, r.variadic, r.provolatile,
      r.proretset, r.is_void, r.returns, r.composite, r.of_table, r.parameters) order by r.proname), '[]')
    from routines r)::text`;

type ColumnRow = readonly [
  name: string,
  type: string,
  baseType: string,
  notNull: boolean,
  byDefault: string | null,
  generated: boolean,
  comment: string | null,
  labels: readonly string[] | null,
];

type TableRow = readonly [
  name: string,
  kind: string,
  comment: string | null,
  rowSecurity: boolean,
  updates: number,
  columns: readonly ColumnRow[],
  keys: readonly (readonly [isPrimary: boolean, columns: readonly string[]])[],
  foreignKeys: readonly (readonly [
    name: string,
    target: string,
    columns: readonly string[],
    targets: readonly string[],
  ])[],
];

type RoutineRow = readonly [
  name: string,
  comment: string | null,
  variadic: boolean,
  volatility: string,
  set: boolean,
  isVoid: boolean,
  returns: string,
  composite: boolean,
  table: string | null,
  parameters: readonly (readonly [name: string, type: string, optional: boolean])[],
];

const kinds: Readonly<Record<string, TableKind>> = {
  r: 'table',
  p: 'partitioned',
  v: 'view',
  m: 'materialized',
  f: 'foreign',
};

const volatilities = { i: 'immutable', s: 'stable', v: 'volatile' } as const;

// Bits of pg_relation_is_updatable: what INSERT and UPDATE would do.
const [insertBit, updateBit] = [8, 4];

const qualified = (schema: string, name: string): string =>
  `${schema === 'public' ? schema : quoteName(schema)}.${quoteName(name)}`;

/** Its relationships are known once all tables are. */
type Draft = Omit<Table, 'relationships'> & { relationships: Table['relationships'] };

/** The role that reads may not use schema public, so that the server qualifies the types of it. */
const typeName = (type: string): string => (type.startsWith('public.') ? type.slice('public.'.length) : type);

const columnOf = ([name, type, baseType, notNull, byDefault, generated, comment, labels]: ColumnRow): Column => ({
  name,
  type: typeName(type),
  baseType,
  nullable: !notNull,
  default: byDefault,
  generated,
  comment,
  enumValues: labels,
});

const tableOf = (schema: string, row: TableRow): Draft => {
  const [name, kind, comment, rowSecurity, updates, columns, keys] = row;
  return {
    name,
    sql: qualified(schema, name),
    kind: kinds[kind] ?? 'table',
    comment,
    rowSecurity,
    columns: new Map(columns.map((column) => [column[0], columnOf(column)])),
    primaryKey: keys.find(([isPrimary]) => isPrimary)?.[1] ?? [],
    uniques: keys.map(([, of]) => of),
    relationships: [],
    insertable: (updates & insertBit) !== 0,
    updatable: (updates & updateBit) !== 0,
  };
};

const routineOf = (schema: string, row: RoutineRow): Routine => {
  const [name, comment, variadic, volatility, set, isVoid, returns, composite, table, parameters] = row;
  return {
    name,
    sql: qualified(schema, name),
    comment,
    parameters: parameters.map(([of, type, optional]) => ({ name: of, type: typeName(type), optional })),
    variadic,
    volatility: volatilities[volatility as keyof typeof volatilities],
    returns: { type: typeName(returns), set, composite, table, void: isVoid },
  };
};

const byName = <T extends { readonly name: string }>(list: readonly T[]): Map<string, T[]> => {
  const groups = new Map<string, T[]>();
  for (const one of list) groups.set(one.name, [...(groups.get(one.name) ?? []), one]);
  return groups;
};

/** Reads a schema. */
export const introspectionOf = (schema: string): Sql => ({ text: introspection, params: [quoteName(schema)] });

/** Parses the answer of `introspectionOf`. */
export const schemaOf = (
  [version, tableText, routineText]: readonly (string | null)[],
  schema = 'public',
): DataSchema => {
  const rows = JSON.parse(tableText ?? '[]') as TableRow[];
  const tables = new Map(rows.map((row) => [row[0], tableOf(schema, row)]));
  const foreignKeys: ForeignKey[] = rows.flatMap(([table, , , , , , , keys]) =>
    keys.map(([name, target, columns, targetColumns]) => ({ name, table, target, columns, targetColumns })),
  );
  for (const [name, found] of relationshipsOf(tables, foreignKeys)) {
    const table = tables.get(name);
    if (table) table.relationships = found;
  }
  const routines = (JSON.parse(routineText ?? '[]') as RoutineRow[]).map((row) => routineOf(schema, row));
  return {
    name: schema,
    version: version ?? '',
    tables,
    routines: byName(routines),
  };
};
