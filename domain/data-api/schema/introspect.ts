import type { Sql } from '../data-api.ts';
import { quoteName } from '../sql/sql.ts';
import {
  type Column,
  type DataSchema,
  type Routine,
  type Table,
  type TableKind,
  type ForeignKey,
  type Relationship,
  type RelationshipsOfTable,
  relationshipsOf,
} from './schema.ts';

/**
 * The one statement that reads a schema, `$1` being its quoted name: its version and its content are of one moment. Its
 * parts are materialized: otherwise the server builds lists for each table, 1.5 s for a hundred of them in place of 30
 * ms. Each relation and function is a row, whose parts are parsed only when a request needs them.
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
    ) order by a.attnum) as list,
    pg_catalog.bool_or(a.attname::text collate "C" ~ '^[A-Za-z_][A-Za-z0-9_]*$'
      and not pg_catalog.starts_with(a.attname::text, '__')) as has_plain
  from pg_catalog.pg_attribute a
  join relations r on r.oid = a.attrelid
  join pg_catalog.pg_type t on t.oid = a.atttypid
  left join pg_catalog.pg_type base on base.oid = t.typbasetype
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join enums own on own.enumtypid = case when t.typtype = 'd' then t.typbasetype else a.atttypid end
  left join enums element on element.enumtypid = t.typelem and t.typcategory = 'A'
  where a.attnum > 0 and not a.attisdropped
  group by 1
), base_types as materialized (
  select distinct case when t.typtype = 'd' then base.typname else t.typname end as name
  from pg_catalog.pg_attribute a
  join relations r on r.oid = a.attrelid
  join pg_catalog.pg_type t on t.oid = a.atttypid
  left join pg_catalog.pg_type base on base.oid = t.typbasetype
  where a.attnum > 0 and not a.attisdropped
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
select p.part, p.name, p.head, p.list, p.links from (
  select 'schema' as part, '' as name, plinth_api.schema_version() as head,
    (select coalesce(pg_catalog.json_agg(b.name), '[]') from base_types b)::text as list, null as links
  union all
  select 'table', r.relname::text, pg_catalog.json_build_array(r.relkind, r.comment, r.relrowsecurity, r.updates,
      coalesce(k.list, '[]'), coalesce(c.has_plain, false))::text, coalesce(c.list, '[]')::text, f.list::text
  from relations r left join columns c on c.attrelid = r.oid left join keys k on k.indrelid = r.oid
    left join foreign_keys f on f.conrelid = r.oid
  union all
  select 'routine', r.proname::text, pg_catalog.json_build_array(r.comment, r.variadic, r.provolatile, r.proretset,
      r.is_void, r.returns, r.composite, r.of_table, r.parameters)::text, null, null
  from routines r
) p order by p.part, p.name collate "C", p.head`;

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

type TableHead = readonly [
  kind: string,
  comment: string | null,
  rowSecurity: boolean,
  updates: number,
  keys: readonly (readonly [isPrimary: boolean, columns: readonly string[]])[],
  hasPlainColumns: boolean,
];

type ForeignKeyRow = readonly [name: string, target: string, columns: readonly string[], targets: readonly string[]];

type RoutineHead = readonly [
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

/** A value that is made when it is first asked for. */
const lazily = <T>(make: () => T): (() => T) => {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
};

type TableFacts = Pick<
  Table,
  'kind' | 'comment' | 'rowSecurity' | 'hasPlainColumns' | 'primaryKey' | 'uniques' | 'insertable' | 'updatable'
>;

const tableFacts = (head: string): TableFacts => {
  const [kind, comment, rowSecurity, updates, keys, hasPlainColumns] = JSON.parse(head) as TableHead;
  return {
    kind: kinds[kind] ?? 'table',
    comment,
    rowSecurity,
    hasPlainColumns,
    primaryKey: keys.find(([isPrimary]) => isPrimary)?.[1] ?? [],
    uniques: keys.map(([, of]) => of),
    insertable: (updates & insertBit) !== 0,
    updatable: (updates & updateBit) !== 0,
  };
};

const columnsOf = (list: string): Table['columns'] =>
  new Map((JSON.parse(list) as ColumnRow[]).map((column) => [column[0], columnOf(column)]));

/** The parts of a row about a table, as text. */
interface TableTexts {
  readonly name: string;
  readonly head: string;
  readonly list: string;
}

/** A table whose parts are parsed when they are first asked for: a request needs one of what may be thousands. */
class ReadTable implements Table {
  readonly name: string;
  readonly sql: string;
  readonly #facts: () => TableFacts;
  readonly #columns: () => Table['columns'];
  readonly #relationships: () => readonly Relationship[];

  constructor(schema: string, { name, head, list }: TableTexts, relationships: RelationshipsOfTable) {
    this.name = name;
    this.sql = qualified(schema, name);
    this.#facts = lazily(() => tableFacts(head));
    this.#columns = lazily(() => columnsOf(list));
    this.#relationships = lazily(() => relationships(this));
  }

  get kind(): TableKind {
    return this.#facts().kind;
  }

  get comment(): string | null {
    return this.#facts().comment;
  }

  get rowSecurity(): boolean {
    return this.#facts().rowSecurity;
  }

  get columns(): Table['columns'] {
    return this.#columns();
  }

  get hasPlainColumns(): boolean {
    return this.#facts().hasPlainColumns;
  }

  get primaryKey(): readonly string[] {
    return this.#facts().primaryKey;
  }

  get uniques(): Table['uniques'] {
    return this.#facts().uniques;
  }

  get relationships(): readonly Relationship[] {
    return this.#relationships();
  }

  get insertable(): boolean {
    return this.#facts().insertable;
  }

  get updatable(): boolean {
    return this.#facts().updatable;
  }
}

type RoutineFacts = Pick<Routine, 'comment' | 'parameters' | 'variadic' | 'volatility' | 'returns'>;

const routineFacts = (head: string): RoutineFacts => {
  const row = JSON.parse(head) as RoutineHead;
  const [comment, variadic, volatility, set, isVoid, returns, composite, table, parameters] = row;
  return {
    comment,
    parameters: parameters.map(([of, type, optional]) => ({ name: of, type: typeName(type), optional })),
    variadic,
    volatility: volatilities[volatility as keyof typeof volatilities],
    returns: { type: typeName(returns), set, composite, table, void: isVoid },
  };
};

/** A function whose parts are parsed when they are first asked for. */
class ReadRoutine implements Routine {
  readonly name: string;
  readonly sql: string;
  readonly #facts: () => RoutineFacts;

  constructor(schema: string, name: string, head: string) {
    this.name = name;
    this.sql = qualified(schema, name);
    this.#facts = lazily(() => routineFacts(head));
  }

  get comment(): string | null {
    return this.#facts().comment;
  }

  get parameters(): Routine['parameters'] {
    return this.#facts().parameters;
  }

  get variadic(): boolean {
    return this.#facts().variadic;
  }

  get volatility(): Routine['volatility'] {
    return this.#facts().volatility;
  }

  get returns(): Routine['returns'] {
    return this.#facts().returns;
  }
}

/** A row of the answer: the kind and name of what it describes, and its parts as JSON. */
type Part = readonly (string | null)[];

/** They take some 40 ms of the process. Those after them lead nowhere. */
const maxForeignKeys = 20_000;
/** In characters of their description. */
const maxLinkLength = 4 * 1024 * 1024;

const foreignKeysOf = (parts: readonly Part[]): ForeignKey[] => {
  const keys: ForeignKey[] = [];
  let length = 0;
  for (const [, table, , , links] of parts) {
    length += links?.length ?? 0;
    if (length > maxLinkLength) break;
    for (const [name, target, columns, targetColumns] of JSON.parse(links ?? '[]') as ForeignKeyRow[])
      keys.push({ name, table: table ?? '', target, columns, targetColumns });
  }
  return keys.slice(0, maxForeignKeys);
};

const tablesOf = (schema: string, parts: readonly Part[]): Map<string, Table> => {
  const tables = new Map<string, Table>();
  const relationships = lazily(() => relationshipsOf(tables, foreignKeysOf(parts)));
  for (const [, name, head, list] of parts) {
    const texts = { name: name ?? '', head: head ?? '', list: list ?? '[]' };
    tables.set(texts.name, new ReadTable(schema, texts, (table) => relationships()(table)));
  }
  return tables;
};

const routinesOf = (schema: string, parts: readonly Part[]): DataSchema['routines'] =>
  Map.groupBy(
    parts.map(([, name, head]) => new ReadRoutine(schema, name ?? '', head ?? '')),
    ({ name }) => name,
  );

const bytesOf = (parts: readonly Part[]): number =>
  parts.reduce((sum, part) => part.reduce((bytes, text) => bytes + (text?.length ?? 0), sum), 0);

/** Reads a schema. */
export const introspectionOf = (schema: string): Sql => ({ text: introspection, params: [quoteName(schema)] });

/**
 * The schema that the answer to `introspectionOf` describes. Its tables and functions are parsed when they are first
 * asked for: all of 10,000 tables held the process up for 0.1 s after each change of their schema.
 */
export const schemaOf = (parts: readonly Part[], schema = 'public'): DataSchema => {
  const { schema: [own] = [], table = [], routine = [] } = Object.groupBy(parts, ([part]) => String(part));
  const [, , version, baseTypes] = own ?? [];
  return {
    name: schema,
    version: version ?? '',
    tables: tablesOf(schema, table),
    routines: routinesOf(schema, routine),
    baseTypes: new Set(JSON.parse(baseTypes ?? '[]') as string[]),
    bytes: bytesOf(parts),
  };
};
